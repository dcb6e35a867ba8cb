"""The audit log: who wrote or was refused, from where, what, and how it ended; and nothing else."""

from __future__ import annotations

import json
import logging
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tree import Node, Tree, a_host
from zonesched.api.audit_log import AuditEntry, AuditLog
from zonesched.errors import ConfigError

pytestmark = pytest.mark.once

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}

ENTRY = AuditEntry(
    time="2026-01-01T00:00:00.000Z",
    request_id="req-1",
    user="admin",
    role="admin",
    project_id="admin",
    address="127.0.0.1",
    method="POST",
    path="/flavors",
    action="",
    status=200,
    code="",
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Tree(tmp_path).add("zone", hosts_=[a_host("h1")], audit_log=str(tmp_path / "audit.log"))


def entries(node: Node) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(node.zone.conf.audit_log).read_text().splitlines()]


def brief(node: Node) -> list[tuple[Any, ...]]:
    return [(e["user"], e["role"], e["method"], e["path"], e["status"], e["code"]) for e in entries(node)]


def test_a_write_is_kept_with_its_caller_and_its_end(node: Node) -> None:
    answer = node.client().post("/flavors", FLAVOR, headers={"X-Request-Id": "my-id"})

    assert answer.status == 200
    assert entries(node) == [
        {
            "time": entries(node)[0]["time"],
            "request_id": "my-id",
            "user": "admin",
            "role": "admin",
            "project_id": "project-1",
            "address": "127.0.0.1",
            "method": "POST",
            "path": "/flavors",
            "action": "",
            "status": 200,
            "code": "",
        }
    ]
    assert entries(node)[0]["time"].endswith("Z")


def test_refused_calls_are_kept_with_their_codes_also_reads(node: Node) -> None:
    node.client("reader").post("/flavors", FLAVOR)
    node.client("member").get("/zones")
    node.client("guessed").get("/servers")
    node.client("").get("/servers")
    node.client().post("/flavors", {"flavor": {}})

    assert brief(node) == [
        ("reader", "reader", "POST", "/flavors", 403, "role_forbidden"),
        ("member", "member", "GET", "/zones", 403, "role_forbidden"),
        ("guessed", "", "GET", "/servers", 401, "unauthorized"),
        ("", "", "GET", "/servers", 401, "unauthorized"),
        ("admin", "admin", "POST", "/flavors", 400, "missing_field"),
    ]


def test_an_action_is_named(node: Node) -> None:
    admin = node.client()
    admin.post("/flavors", FLAVOR)
    server = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = admin.post("/servers", server).json["server"]["id"]

    admin.post(f"/servers/{uuid}/action", {"lock": {}})

    assert (entries(node)[-1]["path"], entries(node)[-1]["action"]) == (f"/servers/{uuid}/action", "lock")


def test_reads_and_heartbeats_are_not_kept(node: Node) -> None:
    for path in ("/servers", "/health", "/flavors"):
        assert node.client().get(path).status == 200
    assert node.client("compute").post("/hosts/beat", {"service": "agent"}).status == 204

    assert entries(node) == []


def test_the_file_is_for_its_owner_only_also_after_it_was_moved_away(node: Node) -> None:
    log = Path(node.zone.conf.audit_log)
    node.client().post("/flavors", FLAVOR)
    log.rename(log.with_suffix(".1"))

    node.client().post("/flavors", FLAVOR)

    assert [e["status"] for e in entries(node)] == [409]
    assert stat.S_IMODE(log.stat().st_mode) == stat.S_IMODE(log.with_suffix(".1").stat().st_mode) == 0o600


def test_no_secret_is_in_it(node: Node) -> None:
    made = node.client().post("/users", {"user": {"name": "new", "role": "compute", "project_id": ""}})

    text = Path(node.zone.conf.audit_log).read_text()

    assert made.json["user"]["secret"] not in text
    assert node.secrets["admin"] not in text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit_log") as refused:
        Tree(tmp_path).add("zone", audit_log=str(tmp_path / "none" / "audit.log"))
    assert refused.value.field == "audit_log"


def test_polls_of_agents_are_logged_at_debug_level_alone(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    def lines(level: int) -> list[str]:
        caplog.clear()
        with caplog.at_level(level, logger="zonesched"):
            node.client("compute").get("/hosts/instances?service=agent")
            node.client("compute").post("/hosts/beat", {"service": "agent"})
        return [record.getMessage() for record in caplog.records if record.name == "zonesched.api.app"]

    assert lines(logging.INFO) == []
    assert len(lines(logging.DEBUG)) == 2


@pytest.mark.parametrize(
    "next_one",
    ["the same process", "another process", "one that wrote nothing then", "a process started since"],
)
def test_a_line_that_a_full_disk_has_cut_spoils_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, next_one: str
) -> None:
    path = tmp_path / "audit.log"
    log, other, third = (AuditLog(str(path)) for _ in range(3))
    third.write(ENTRY)
    path.unlink()
    log.write(ENTRY)
    line = path.read_text()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(line) + 20, before[1]))
    try:
        log.write(ENTRY)
        other.write(ENTRY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    match next_one:
        case "the same process":
            log.write(ENTRY)
        case "another process":
            other.write(ENTRY)
        case "one that wrote nothing then":
            third.write(ENTRY)
        case _:
            AuditLog(str(path)).write(ENTRY)

    assert path.read_text().split("\n") == [line[:-1], line[:20], line[:-1], ""]
    assert "the audit log cannot be written: No space left on device" in caplog.text
