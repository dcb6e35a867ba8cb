"""The launcher of an instance, under a lease that cannot be read, and what it writes."""

from __future__ import annotations

import os
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


def test_all_that_it_writes_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append((tmp_path / "error.new").read_text())

    monkeypatch.setattr(os, "fsync", noted)

    launcher._write(str(tmp_path), "error", "no room")

    assert (synced, (tmp_path / "error").read_text()) == (["no room"], "no room")
