"""The launcher of an instance, under a lease that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zonesched.compute import launcher
from zonesched.compute.instance_folder import InstanceFolder, Status
from zonesched.compute.machine import Key


@pytest.mark.parametrize("left", ["", "[]", '{"term": 0, "until_s": "soon", "boot_id": 1}'])
def test_a_lease_that_cannot_be_read_has_run_out_and_fails_no_build(tmp_path: Path, left: str) -> None:
    folder = InstanceFolder(tmp_path, Key("a-1", 1))
    form = {"command": ["true"], "environment": {}, "cpus": [], "ram_mb": 0, "disk_gb": 0}
    folder.prepare(form)
    (tmp_path / "lease.json").write_text(left)

    ended = subprocess.run([sys.executable, "-I", "-S", launcher.__file__, str(folder.path), "0"])

    assert ended.returncode == launcher.LAPSED
    # Nothing is left of the try: once the lease is written anew, another launcher starts it.
    assert (folder.status(), folder.was_not_started()) == (Status.PREPARED, False)
