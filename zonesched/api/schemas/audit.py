"""The queries and the body of /audit."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from zonesched.api.schemas.fields import QueryBool, Schema, refusal

MAX_BUDGET_S = 3600.0


class AuditQuery(Schema):
    """`tree`: include the findings of all child zones."""

    tree: QueryBool = False


def _seconds(text: object) -> object:
    try:
        return float(text) if isinstance(text, str) else text
    except ValueError:
        raise refusal("invalid_value", "must be a number of seconds") from None


class ReportedAuditQuery(Schema):
    """`budget_s`: seconds after which no child zone is asked any more."""

    budget_s: Annotated[
        float, Field(gt=0, le=MAX_BUDGET_S), BeforeValidator(_seconds, json_schema_input_type=float)
    ]


class Repair(Schema):
    """`dry_run`: only list the repairs."""

    dry_run: bool = False


class RepairBody(Schema):
    repair: Repair
