"""The queries and the body of /audit."""

from __future__ import annotations

from zonesched.api.schemas.fields import QueryBool, Schema, Seconds, Text


class AuditQuery(Schema):
    """`tree`: include the findings of all child zones. `children`: compare with child zones at all.

    `child`: the id of the one child zone with which this zone is compared; its own rows are left out.
    """

    tree: QueryBool = False
    children: QueryBool = True
    child: Text = ""


class ReportedAuditQuery(Schema):
    """`budget_s`: seconds after which no child zone is asked any more."""

    budget_s: Seconds


class Repair(Schema):
    """`dry_run`: only list the repairs. `delete_unknown`: let agents end what no row of this zone has."""

    dry_run: bool = False
    delete_unknown: bool = False


class RepairBody(Schema):
    repair: Repair
