"""Drivers that cannot be loaded or made: an error that names the driver and what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.own_plugins import install
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.driver import DriverSettings, load_driver, make_driver
from zonesched.compute.fake import FakeDriver
from zonesched.errors import ConfigError


class WithoutSettings(FakeDriver):
    def __init__(self) -> None:
        super().__init__(DriverSettings(), FakeClock())


class HasOneTraitInBrackets(FakeDriver):
    traits = "COMPUTE_PAUSE"  # type: ignore[assignment]


class OnlyBuilds:
    def __init__(self, settings: DriverSettings, clock: FakeClock) -> None:
        self.traits = frozenset[str]()

    def spawn(self, wanted: object) -> None: ...


class SaysWhatIsWrong(FakeDriver):
    def __init__(self, settings: DriverSettings, clock: FakeClock) -> None:
        raise ValueError("this driver needs --state-folder")


class HasNoLease(FakeDriver):
    def lease(self) -> Any:
        return None


class CannotLook(FakeDriver):
    def found(self) -> Any:
        raise RuntimeError("no hypervisor")


class FindsNone(FakeDriver):
    def found(self) -> Any:
        return None


class ExpectsNone(FakeDriver):
    def next_event_s(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (HasNoLease, "lease of the driver HasNoLease gave None"),
        (CannotLook, r"found of the driver CannotLook failed: RuntimeError\('no hypervisor'\)"),
        (FindsNone, "found of the driver FindsNone gave None"),
        (ExpectsNone, "next_event_s of the driver ExpectsNone gave None"),
    ],
)
def test_an_agent_does_not_start_with_a_driver_that_answers_nothing(
    driver: type[FakeDriver], said: str
) -> None:
    clock = FakeClock()
    client = AgentClient(ZoneConnection("http://127.0.0.1:1", "agent", "secret"), "compute")

    with pytest.raises(ConfigError, match=said):
        Agent(client, driver(DriverSettings(), clock), clock, [], Rhythm())


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (WithoutSettings, r"WithoutSettings' cannot be created: TypeError"),
        (HasOneTraitInBrackets, r"HasOneTraitInBrackets': its traits must be a set of str"),
        (OnlyBuilds, r"OnlyBuilds' is not a driver: it has no lease, hold, found, apply, leave"),
    ],
)
def test_a_driver_that_is_none_is_refused_by_its_name(driver: type, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_driver(f"{__name__}:{driver.__name__}", DriverSettings(), FakeClock())


def test_a_driver_says_itself_what_is_wrong_with_its_settings() -> None:
    with pytest.raises(ValueError, match="needs --state-folder"):
        make_driver(f"{__name__}:{SaysWhatIsWrong.__name__}", DriverSettings(), FakeClock())


def test_a_driver_of_two_packages_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[zonesched.compute_drivers]\nfake = acme_driver:Driver\ntypo = acme_driver:Driver\n")
    (tmp_path / "acme_driver.py").write_text("def Driver(\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match=r"'fake' is in several packages: acme_driver:Driver, zonesched"):
        load_driver("fake")
    with pytest.raises(ConfigError, match=r"'typo' cannot be loaded: SyntaxError"):
        load_driver("typo")
