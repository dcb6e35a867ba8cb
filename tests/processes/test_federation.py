"""The federation of etc/federation as real processes, joined by one command."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.builders.real_processes import eventually, free_ports
from tests.builders.zone_processes import CHECKOUT, Story, answers, launched

ZONES = ("root", "region", "leaf")


def configured(folder: Path, name: str, port: int) -> Path:
    """The shipped configuration of a zone, with keys, and with state and port of this test."""
    path = folder / f"{name}.conf"
    text = path.read_text()
    for option, value in {
        "state_path": folder / f"{name}-state",
        "bind_port": port,
        "child_networks": "loopback",
    }.items():
        text = re.sub(rf"(?m)^{option} = .*$", f"{option} = {value}", text)
    for key in ("build_plan_encryption_key", "secret_encryption_key"):
        text = re.sub(rf"(?m)^#?{key} =.*$", f"{key} = {port * 10**59:x}".ljust(len(key) + 67, "b"), text)
    path.write_text(text.replace("zone_db_check_interval = 5", "zone_db_check_interval = 0.2"))
    return path


@pytest.mark.slow
def test_the_shipped_federation_joins_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "federation"
    shutil.copytree(CHECKOUT / "etc/federation", folder)
    first = free_ports(len(ZONES))
    with ExitStack() as running:
        for port, name in enumerate(ZONES, first):
            conf = str(configured(folder, name, port))
            running.enter_context(launched("zonesched.serving", "--config-file", conf))
        for port in range(first, first + len(ZONES)):
            eventually("the zone answers", lambda url=f"http://127.0.0.1:{port}": answers(url))
        command = Story([], capsys)

        made = command("federation", "apply", str(folder / "tree.toml"))
        assert made.endswith("7 steps done\n")
        assert "as the file says" in command("federation", "apply", str(folder / "tree.toml"))

        root = Story(["--credentials", str(folder / "root-state/admin.credentials")], capsys)
        shown = ("zone", "list", "-o", "value", "-c", "name", "-c", "state")
        eventually("the region is ready", lambda: root(*shown) == "region ready\n")
        eventually("the tree is whole", lambda: "complete" in root("zone", "info"))
