"""Options that tests copy are those that `conf.load` reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.options import copy_of, forget_read, loaded
from zonesched import conf as options
from zonesched.errors import ConfigError

OVERRIDES: dict[str, Any] = {
    "zone_name": "leaf",
    "state_path": "/folder",
    "child_networks": ["loopback"],
    "hold": 50.0,
    "max_hold": 60.0,
}


def values(conf: options.Conf) -> dict[str, Any]:
    return {option.name: conf[option.dest] for option in options.ALL}


@pytest.mark.parametrize("overrides", [OVERRIDES, {}])
def test_each_option_has_the_value_that_it_has_without_a_copy(overrides: dict[str, Any]) -> None:
    assert values(loaded(overrides)) == values(options.load(overrides=overrides))


def test_options_that_cannot_be_used_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="hold"):
        loaded({"hold": 50.0, "max_hold": 40.0})


def test_what_is_overridden_in_a_copy_stays_there() -> None:
    conf = loaded(OVERRIDES)
    copy, before = copy_of(conf), values(conf)
    copy.set_override("hold", 55.0)
    # What was read before the override would hide it.
    forget_read(conf)

    assert (copy.hold, conf.hold) == (55.0, 50.0)
    assert values(conf) == before
    assert values(loaded({})) == values(options.load())
