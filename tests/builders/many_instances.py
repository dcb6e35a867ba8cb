"""A zone with so many instances that a read of all of them is seen by its steps."""

from __future__ import annotations

from tests.builders.one_zone import put_instance, put_reservation, sql
from zonesched.model.desired_state import InstanceState
from zonesched.model.server_query import NEWEST_FIRST
from zonesched.services.zone import Zone
from zonesched.store import instance_states
from zonesched.store.instance_states import StoredState
from zonesched.store.server_list import Everybody, Page


def many_instances(zone: Zone) -> None:
    """A thousand instances of one project and one of another, half of them deleted."""
    put_reservation(zone)
    uuid = put_instance(zone)
    one = "SELECT * FROM instances"
    columns = sql(zone, one)[0]._fields
    new = {
        "uuid": "substr(CAST(100000000 + n AS text), 2)",
        "created_at": "created_at + n",
        "changed_seq": "changed_seq + n",
        "status": "CASE n % 2 WHEN 0 THEN 'ACTIVE' ELSE 'DELETED' END",
    }
    sql(
        zone,
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)"
        f" INSERT INTO instances SELECT {', '.join(new.get(c, c) for c in columns)} FROM instances, numbers",
    )
    sql(zone, "UPDATE instances SET project_id = 'project-2' WHERE uuid = :uuid", uuid=uuid)


def put_state(zone: Zone, uuid: str, state: InstanceState) -> None:
    zone.store.write(lambda tx: instance_states.write(tx, [StoredState(uuid, state)], ()))


EVERYBODYS = Page(Everybody(), "", (), "", 0.0, 0.0, "", "", "", "", "", NEWEST_FIRST, "", limit=2)
