"""The container file: its steps, taken in a folder of this machine, make a zone that runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import answers, write_conf

CHECKOUT = Path(__file__).parents[2]
PREFIX = "/opt/zonesched"


@dataclass(frozen=True)
class Step:
    """A line of the file, such as `RUN` and its command."""

    word: str
    rest: str


def stages() -> Sequence[Sequence[Step]]:
    """The steps of each stage; the first one of each is its FROM."""
    text = (CHECKOUT / "Containerfile").read_text().replace("\\\n", " ")
    steps = [Step(*found) for found in re.findall(r"(?m)^([A-Z]+) (.*)$", text)]
    starts = [number for number, step in enumerate(steps) if step.word == "FROM"]
    return [steps[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def of(word: str, stage: Sequence[Step]) -> list[str]:
    return [step.rest for step in stage if step.word == word]


def test_its_parts_fit_the_checkout_and_each_other() -> None:
    build, image = stages()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]

    [command] = map(json.loads, of("CMD", image))
    assert command[0] in project["scripts"]
    for copied in of("COPY", build):
        *sources, _ = copied.split()
        assert all((CHECKOUT / source).exists() for source in sources), copied
    assert of("COPY", image) == [f"--from=build {PREFIX} {PREFIX}"]
    # What is built is copied between two images of one Python.
    assert build[0].rest.split()[0] == image[0].rest.split()[0]


def test_the_zone_is_no_root_and_its_state_is_a_volume() -> None:
    image = stages()[-1]

    [user], [volume], [folder] = (of(word, image) for word in ("USER", "VOLUME", "WORKDIR"))
    assert user != "root"
    assert any(f" {user}" in made and f"--home-dir {folder}" in made for made in of("RUN", image))
    assert volume == folder
    words = [step.word for step in image]
    assert words.index("RUN") < words.index("USER") < words.index("CMD")


@pytest.mark.slow
@pytest.mark.sqlite
def test_what_its_steps_install_serves_a_zone(tmp_path: Path) -> None:
    build, image = stages()
    source, prefix, state = tmp_path / "source", tmp_path / "opt", tmp_path / "state"
    source.mkdir()
    for copied in of("COPY", build):
        *names, target = copied.split()
        for name in names:
            copy(CHECKOUT / name, source / target)
    for number, command in enumerate(of("RUN", build)):
        words = command.replace(PREFIX, str(prefix)).split()
        words[0] = sys.executable if words[0] == "python" else words[0]
        subprocess.run(words, cwd=source, check=True, capture_output=True)
        if number == 0:
            # The pinned packages are here already: nothing is fetched.
            [site] = prefix.glob("lib/python3*/site-packages")
            (site / "here.pth").write_text(sysconfig.get_path("purelib"))
    state.mkdir(mode=0o700)
    port = free_port()
    write_conf(state, port)
    [(program, *options)] = map(json.loads, of("CMD", image))
    with (state / "log").open("w") as log:
        zone = subprocess.Popen([prefix / "bin" / program, *options], cwd=state, stdout=log, stderr=log)
    try:
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"), timeout_s=180.0)
    finally:
        zone.terminate()
        assert zone.wait(60) == 0


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
