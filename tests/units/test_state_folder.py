"""What an agent keeps of itself in its state folder."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.stub_zone import running_stub
from zonesched.compute import process_table
from zonesched.compute.client import AgentClient, ZoneIdentity
from zonesched.compute.connection import ZoneConnection, ZoneUnavailable
from zonesched.compute.instance_folder import InstanceFolder
from zonesched.compute.machine import Key
from zonesched.compute.state_folder import OtherOwner, Owner, host_name, of_folder, take

MINE = Owner("agent-1", "uuid-1", "leaf")


def test_an_agent_keeps_its_id_and_another_folder_has_another(tmp_path: Path) -> None:
    clock = FakeClock()

    first = of_folder(tmp_path / "state" / "agent", clock)

    assert of_folder(tmp_path / "state" / "agent", clock) == first
    assert of_folder(tmp_path / "other", clock).id != first.id


def test_a_copy_of_its_folder_is_another_home_and_so_is_its_machine_once_it_has_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = of_folder(tmp_path / "agent", FakeClock())
    shutil.copytree(tmp_path / "agent", tmp_path / "copy")

    copy = of_folder(tmp_path / "copy", FakeClock())
    monkeypatch.setattr(process_table, "boot_id", lambda: str(uuid.uuid4()))
    later = of_folder(tmp_path / "agent", FakeClock())

    assert {first.id, copy.id, later.id} == {first.id}
    assert len({first.home, copy.home, later.home}) == 3


@pytest.mark.parametrize("left", ["", "\x00\x00\x00", "no id"])
def test_a_file_that_a_power_cut_has_damaged_gets_a_new_id(tmp_path: Path, left: str) -> None:
    (tmp_path / "agent-id").write_text(left)

    made = of_folder(tmp_path, FakeClock())

    assert of_folder(tmp_path, FakeClock()) == made
    assert [path.name for path in tmp_path.iterdir()] == ["agent-id"]


def an_instance(folder: Path) -> None:
    (folder / "instances").mkdir()
    InstanceFolder(folder / "instances", Key("a", 1)).prepare({})


@pytest.mark.parametrize("other", [replace(MINE, service="renamed"), replace(MINE, zone_uuid="uuid-2")])
def test_instances_of_another_service_or_zone_are_not_taken(tmp_path: Path, other: Owner) -> None:
    take(tmp_path, MINE)
    an_instance(tmp_path)

    with pytest.raises(OtherOwner, match=r"are those of the agent agent-1 of the zone leaf .*owner\.json"):
        take(tmp_path, other)
    take(tmp_path, replace(MINE, zone_name="new-name"))
    (tmp_path / "owner.json").unlink()
    take(tmp_path, other)


def test_an_agent_whose_disk_is_full_goes_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    an_instance(tmp_path)
    (tmp_path / "owner.json.new").symlink_to("/dev/full")

    take(tmp_path, MINE)

    assert "whose instances are in" in caplog.text
    assert "No space left" in caplog.text


def test_a_folder_without_instances_goes_to_anybody(tmp_path: Path) -> None:
    for owner in (MINE, replace(MINE, service="renamed")):
        take(tmp_path, owner)
    an_instance(tmp_path)

    with pytest.raises(OtherOwner):
        take(tmp_path, MINE)


@pytest.mark.parametrize("left", ["", "\x00", "[]", "{}"])
def test_a_damaged_note_of_the_owner_is_written_anew(tmp_path: Path, left: str) -> None:
    an_instance(tmp_path)
    (tmp_path / "owner.json").write_text(left)
    take(tmp_path, MINE)

    with pytest.raises(OtherOwner):
        take(tmp_path, replace(MINE, service="renamed"))


def test_a_host_keeps_the_name_that_its_machine_had_first(tmp_path: Path) -> None:
    folder = tmp_path / "agent"

    assert [host_name(folder, name) for name in ("old", "new")] == ["old", "old"]
    (folder / "host-name").write_text("")
    assert host_name(folder, "new") == "new"


def test_an_owner_that_the_disk_does_not_give_is_said_and_read_again(tmp_path: Path) -> None:
    # given a file that cannot be read
    (tmp_path / "owner.json").mkdir()

    def admit(zone: ZoneIdentity) -> None:
        take(tmp_path, Owner("agent", zone.uuid, zone.name))

    with running_stub() as zone:
        zone.answer(
            "GET", "/hosts/registrations", (200, {"zone": {"name": "z", "uuid": "u"}, "registrations": {}})
        )
        client = AgentClient(ZoneConnection(zone.url, "", ""), "agent", admit=admit)
        # when an agent registers, then it is put off with that as the reason, and nothing is registered
        with pytest.raises(ZoneUnavailable, match=r"owner\.json"):
            client.register([])
        assert [asked.method for asked in zone.asked] == ["GET"]
