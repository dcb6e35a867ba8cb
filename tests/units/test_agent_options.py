"""Options of `zonesched-compute` that no agent can start with."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from zonesched.compute.main import main


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--poll-seconds", "nan"], "'--poll-seconds': 'nan' is not a finite number."),
        (["--heartbeat-seconds", "inf"], "'--heartbeat-seconds': inf is not in the range"),
        (["--fence-after", "nan"], "'--fence-after': 'nan' is not a finite number."),
        (["--poll-seconds", "1e10"], "10000000000.0 is not in the range"),
        (["--connection-type", "process", "--state-folder", "/dev/null/agent"], "/dev/null/agent"),
        (["--password-file", "FOLDER/hosts.csv"], "hosts.csv is not a text in UTF-8"),
        (["--password-file", "FOLDER/empty"], "empty has no password"),
        (["--connection-type", "process"], "needs a state folder: --state-folder"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "hosts.csv").write_bytes(b"\xff")
    (tmp_path / "hosts.json").write_text("[]")
    (tmp_path / "empty").write_text("\n")
    given = [option.replace("FOLDER", str(tmp_path)) for option in options]
    url = ["--zone-url", "http://127.0.0.1:1", "--inventory", str(tmp_path / "hosts.json")]
    ended = CliRunner().invoke(main, [*url, *given])
    assert ended.exit_code == 2
    assert said in ended.output
