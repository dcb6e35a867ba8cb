"""The level of the lines that a process logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from zonesched import log_lines

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    before = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(before[0])
    logger.handlers[:] = before[1]


@pytest.mark.parametrize("level", LEVELS)
def test_lines_from_the_level_up_are_written(
    level: str, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_lines.set_up("text", level)

    for name in LEVELS:
        logging.getLogger("zonesched.x").log(logging.getLevelName(name), name)

    written = [line.partition("level=")[2].split()[0] for line in capsys.readouterr().err.splitlines()]
    assert written == list(LEVELS[LEVELS.index(level) :])


@pytest.mark.parametrize("level", LEVELS)
def test_libraries_do_not_talk_at_lower_levels(
    level: str, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_lines.set_up("json", level)

    logging.getLogger("sqlalchemy.engine").info("SELECT 1")

    assert capsys.readouterr().err == ""
