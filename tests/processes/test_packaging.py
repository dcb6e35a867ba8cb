"""Installing: what a wheel holds, the samples, and the chapter about it, followed word by word."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.zone_trees.processes import free_ports
from tests.builders.real_processes import eventually
from zonesched import conf
from zonesched.cli.main import run
from zonesched.cli.session import Session
from zonesched.compute.main import main as agent_program
from zonesched.conf.samples import SAMPLES, Sample, folder, text_of
from zonesched.seal.shortcomings import shortcomings
from zonesched.serving.run_zone import main as zone_program

CHECKOUT = Path(__file__).parents[2]
CHAPTER = CHECKOUT / "docs/install.md"


def command(*arguments: str) -> int:
    return run(arguments, Session())


class TestSamples:
    def test_every_file_of_etc_is_one(self) -> None:
        files = {str(path.relative_to(folder())) for path in folder().rglob("*") if path.is_file()}
        assert {sample.file for sample in SAMPLES} == files

    @pytest.mark.parametrize("name", ["zone", "root", "region", "leaf", "several-machines"])
    def test_a_configuration_has_new_keys_at_each_call(
        self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        keys = set()
        for number in range(2):
            path = tmp_path / f"{number}.conf"
            assert command("config", "sample", name, "--save", str(path)) == 0
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            loaded = conf.load([str(path)])
            keys |= {*loaded.build_plan_encryption_key, *loaded.secret_encryption_key} - {""}
            lacks = [line for line in shortcomings(loaded) if "cannot seal" in line]
            assert bool(lacks) == (name == "root")
        assert len(keys) == {"root": 2, "leaf": 2}.get(name, 4)
        assert capsys.readouterr().out == ""

    def test_they_are_listed_and_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command("config", "sample") == 0
        listed = capsys.readouterr().out
        for sample in SAMPLES:
            assert re.search(rf"(?m)^{sample.name} ", listed)
            assert text_of(sample, lambda: "key")
        assert command("config", "sample", "inventory") == 0
        assert capsys.readouterr().out == (folder() / "zonesched/hosts.csv").read_text()

    def test_an_unknown_name_is_refused_with_those_that_exist(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command("config", "sample", "nosuch") == 2
        message = capsys.readouterr().err
        assert "Invalid value for '[NAME]': 'nosuch' is not one of 'zone', " in message

    def test_a_file_that_is_there_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "z.conf").write_text("mine")
        assert command("config", "sample", "zone", "--save", str(tmp_path / "z.conf")) == 1
        assert (tmp_path / "z.conf").read_text() == "mine"

    @pytest.mark.parametrize("sample", [each for each in SAMPLES if each.name.endswith("-unit")])
    def test_the_options_that_a_unit_gives_exist(self, sample: Sample) -> None:
        text = (folder() / sample.file).read_text().replace("\\\n", " ")
        [line] = re.findall(r"(?m)^ExecStart=/opt/zonesched/bin/(.*)$", text)
        program = {"zonesched-zone": zone_program, "zonesched-compute": agent_program}[line.split()[0]]
        known = {option for parameter in program.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= known


@pytest.mark.slow
def test_a_wheel_has_the_samples_and_the_migrations_in_it(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "zonesched", "etc"):
        (source / name).symlink_to(CHECKOUT / name)
    build = [sys.executable, "setup.py", "-q", "build", "--build-lib", str(built)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    names = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    package = CHECKOUT / "zonesched"
    sources = [
        path for kind in ("*.py", "py.typed", "*.mako", "*.html", "assets/*") for path in package.rglob(kind)
    ]
    wanted = {str(path.relative_to(CHECKOUT)) for path in sources}
    wanted |= {f"zonesched/etc/{sample.file}" for sample in SAMPLES}
    assert {name for name in names if "__pycache__" not in name} == wanted
    program = "from zonesched.cli.main import main; main(['config', 'sample', 'leaf'])"
    alone = {"PYTHONPATH": str(built), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=alone, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "zone_name = leaf" in done.stdout


def test_no_page_installs_the_package_from_an_index_that_does_not_have_it() -> None:
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]
    lines = [line for page in pages for line in page.read_text().splitlines() if "pip install" in line]
    named = [re.findall(r"pip install '?(zonesched[^\s']*)", line) for line in lines]
    assert len(lines) >= 6
    assert [name for names in named for name in names if ".whl" not in name] == []


@pytest.mark.slow
def test_three_zones_are_joined_and_boot_by_the_commands_of_the_chapter(tmp_path: Path) -> None:
    """The commands as they are printed, but for the ports, which may be taken on this machine."""
    section = CHAPTER.read_text().partition("## Three zones without systemd")[2].partition("\n## ")[0]
    first, *rest = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    [promised] = re.findall(r"(\d+) commands", section)
    assert len("".join((first, *rest)).splitlines()) == int(promised)
    ports = dict(zip((8790, 8791, 8792), free_ports(3), strict=True))
    # The whole line, as the digits alone may stand in a new key.
    move = "; ".join(f"s/^bind_port = {old}$/bind_port = {new}/" for old, new in ports.items())
    first = re.sub(r"(?m)^(.* federation init)$", rf"\1; sed -i '{move}' *.conf", first)
    end = "trap 'kill $(jobs -p)' EXIT"
    admins = " && ".join(f"test -f {zone}-state/admin.credentials" for zone in ("root", "region", "leaf"))
    three_run = "test $(jobs -pr | wc -l) -eq 3 || { tail *.log; exit 1; }"
    script = "\n".join(["set -e", end, first, f"until {admins}; do {three_run}; sleep 0.2; done", *rest])
    for old, new in ports.items():
        script = script.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    script = re.sub(r"(?m)^(.* zone info)$", r"until \1 | grep -q VCPU; do sleep 0.2; done", script)
    path = tmp_path / "chapter.sh"
    path.write_text(script)
    done = follow(path)
    assert done.returncode == 0, done.stdout
    assert "ACTIVE=3" in done.stdout
    eventually("the zones end", lambda: not any(answers(port) for port in ports.values()))


def follow(script: Path) -> subprocess.CompletedProcess[str]:
    programs: Sequence[str] = (str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, "PATH": ":".join(programs)}
    return subprocess.run(
        ["bash", str(script)],
        cwd=script.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
