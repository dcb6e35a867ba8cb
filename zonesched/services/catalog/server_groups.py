"""Server groups of a project: their policy places instances together or apart."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.conf import Conf
from zonesched.errors import BadRequest, Forbidden, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.request_spec import ServerGroup
from zonesched.model.views import ServerGroupForm, ServerGroupView
from zonesched.seams import Clock
from zonesched.store import locks
from zonesched.store import server_groups as rows
from zonesched.store.server_groups import AllProjects, OneProject, OwnedGroup
from zonesched.store.store import Store, Transaction


def list_groups(
    store: Store,
    zone_uuid: str,
    caller: Caller,
    *,
    all_projects: bool,
    marker: str,
    offset: int,
    limit: int,
) -> list[ServerGroupView]:
    """List the groups of the caller's project, oldest first. Raises Forbidden for those of others.

    `marker`: the id of the group after which the list begins, "" for none; BadRequest for an unknown one.
    """
    if all_projects and caller.role is not Role.ADMIN:
        raise Forbidden("all_projects: only an admin lists other projects.", field="all_projects")
    projects = AllProjects() if all_projects else OneProject(caller.project_id)

    def fn(tx: Transaction) -> list[ServerGroupView]:
        after = _marked(tx, caller, marker) if marker else None
        return _views(zone_uuid, tx, rows.page(tx, projects, offset, limit, after))

    return store.read(fn)


def _marked(tx: Transaction, caller: Caller, marker: str) -> OwnedGroup:
    try:
        return _existing(tx, caller, marker)
    except NotFound:
        raise BadRequest("marker names no server group.", code="marker_unknown", field="marker") from None


def show(store: Store, zone_uuid: str, caller: Caller, group_id: str) -> ServerGroupView:
    """Show one group of the caller's project, or of any for an admin. Raises NotFound."""
    return store.read(lambda tx: _views(zone_uuid, tx, [_existing(tx, caller, group_id)])[0])


def create(store: Store, clock: Clock, conf: Conf, caller: Caller, form: ServerGroupForm) -> ServerGroupView:
    """Add a group to the caller's project. Raises Forbidden when the project has too many."""
    owned = OwnedGroup(
        group=ServerGroup(clock.new_uuid(), form.policy, form.max_server_per_host),
        name=form.name,
        project_id=caller.project_id,
        user_id=caller.user_id,
        created_at=clock.now(),
    )

    def fn(tx: Transaction) -> None:
        locks.owned(tx, "server_groups", caller.project_id)
        limit = conf.max_server_groups
        if rows.count(tx, caller.project_id) >= limit:
            raise Forbidden(
                f"The project has {limit} server groups already, the limit of this zone.",
                code="too_many_server_groups",
                field="server_group",
            )
        rows.insert(tx, owned)

    store.write(fn)
    return _view(owned, ())


def delete(store: Store, caller: Caller, group_id: str) -> None:
    """Remove a group. Its instances go on as they are; new ones cannot join. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        _existing(tx, caller, group_id)
        # Another call may have removed it since.
        if not rows.delete(tx, group_id):
            raise _unknown()

    store.write(fn)


def resolve(store: Store, caller: Caller, ref: str, field: str) -> ServerGroup:
    """Look up the group of the caller's project that a request names by id or by name.

    Raises BadRequest for an unknown one, and for a name that several groups have.
    """

    def fn(tx: Transaction) -> list[OwnedGroup]:
        by_id = rows.read_one(tx, ref)
        if by_id is not None and by_id.project_id == caller.project_id:
            return [by_id]
        return rows.named(tx, caller.project_id, ref)

    found = store.read(fn)
    if not found:
        raise BadRequest(
            f"{field} names no server group of this project by id or name.",
            code="server_group_unknown",
            field=field,
        )
    if len(found) > 1:
        raise BadRequest(
            f"{field} names several server groups: give an id.", code="server_group_ambiguous", field=field
        )
    return found[0].group


def _existing(tx: Transaction, caller: Caller, group_id: str) -> OwnedGroup:
    found = rows.read_one(tx, group_id)
    if found is None or (caller.role is not Role.ADMIN and found.project_id != caller.project_id):
        raise _unknown()
    return found


def _unknown() -> NotFound:
    return NotFound("There is no such server group.", code="server_group_not_found", field="id")


def _views(zone_uuid: str, tx: Transaction, found: Sequence[OwnedGroup]) -> list[ServerGroupView]:
    members = rows.members(tx, zone_uuid, [owned.group.id for owned in found])
    return [_view(owned, members.get(owned.group.id, ())) for owned in found]


def _view(owned: OwnedGroup, members: Sequence[str]) -> ServerGroupView:
    return ServerGroupView(
        id=owned.group.id,
        name=owned.name,
        policy=owned.group.policy,
        max_server_per_host=owned.group.max_server_per_host,
        members=tuple(members),
        project_id=owned.project_id,
        user_id=owned.user_id,
    )
