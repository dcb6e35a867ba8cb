"""The next step to a domain of libvirt, pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonesched.compute.desired_state import Desired, Power, RebootType
from zonesched.compute.libvirt_domain import Domain, Marker
from zonesched.compute.libvirt_steps import Step, step_to_reach
from zonesched.compute.machine import Key

KEY = Key("00000000-0000-4000-8000-000000000001", 1)


@pytest.mark.parametrize(("reboots", "step"), [(5, Step.POWER_OFF), (3, Step.PAUSE), (0, Step.PAUSE)])
def test_only_a_later_reboot_than_the_last_one_is_done(reboots: int, step: Step, tmp_path: Path) -> None:
    """A zone that was put back from a copy may have forgotten the last one."""
    domain = Domain(Marker(KEY, str(tmp_path), is_built=True, generation=4, reboots=3), Power.RUNNING)

    chosen = step_to_reach(domain, Desired(5, Power.PAUSED, reboots, RebootType.HARD))

    assert chosen is step
