"""`zonesched client-config`: a clouds.yaml that OpenStack's clients read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from zonesched.cli.main import run
from zonesched.cli.session import Session


def test_the_credentials_at_hand_become_a_cloud(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONESCHED_PASSWORD", 'a "quoted": pass#word')

    code = run(
        ["client-config", "--zone-url", "http://127.0.0.1:8790/", "--username", "ann", "--cloud", "home"],
        Session(),
    )

    cloud = yaml.safe_load(capsys.readouterr().out)["clouds"]["home"]
    assert code == 0
    assert cloud["auth_type"] == "http_basic"
    assert cloud["auth"] == {
        "username": "ann",
        "password": 'a "quoted": pass#word',
        "endpoint": "http://127.0.0.1:8790/v2.1",
    }
    assert cloud["image_endpoint_override"] == "http://127.0.0.1:8790/image/v2"
    assert [key for key, value in cloud.items() if value is False] == [
        "has_network",
        "has_load_balancer",
        "has_shared_file_system",
    ]
    assert "cacert" not in cloud


def test_the_clients_trust_whom_the_command_trusts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").touch()

    run(
        ["client-config", "--zone-url", "https://zone.example", "--username", "ann", "--cacert", "ca.pem"],
        Session(),
    )

    cloud = yaml.safe_load(capsys.readouterr().out)["clouds"]["zone"]
    assert cloud["cacert"] == str(tmp_path / "ca.pem")
