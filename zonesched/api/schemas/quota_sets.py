"""Bodies and queries of /os-quota-sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from zonesched.api.schemas.fields import MAX_INT, LenientQuery, Schema, SpelledBool, Text

_NUMBER = r"^-?[0-9]{1,10}$"


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and re.fullmatch(_NUMBER, value) else value


NumberText = Annotated[str, Field(pattern=_NUMBER)]
Quota = Annotated[
    int, BeforeValidator(_number, json_schema_input_type=int | NumberText), Field(ge=-1, le=MAX_INT)
]
"""A quota, which OpenStack's clients may send as a text; -1 is no limit."""


class QuotaSet(Schema):
    """Quotas to set, of which a zone limits `instances`; the others may have the value that they have."""

    instances: Quota | None = None
    cores: Quota | None = None
    ram: Quota | None = None
    key_pairs: Quota | None = None
    metadata_items: Quota | None = None
    server_groups: Quota | None = None
    server_group_members: Quota | None = None
    fixed_ips: Quota | None = None
    floating_ips: Quota | None = None
    security_group_rules: Quota | None = None
    security_groups: Quota | None = None
    injected_file_content_bytes: Quota | None = None
    injected_file_path_bytes: Quota | None = None
    injected_files: Quota | None = None
    force: SpelledBool = False

    def others(self) -> Mapping[str, int]:
        """Return the quotas other than `instances` that the body names."""
        given = self.model_dump(exclude={"instances", "force"}, exclude_none=True)
        return {str(name): int(value) for name, value in given.items()}


class QuotaSetBody(Schema):
    """Quotas of a project."""

    quota_set: QuotaSet


class QuotaClassBody(Schema):
    """Quotas of projects without overrides."""

    quota_class_set: QuotaSet


class QuotaQuery(LenientQuery):
    """OpenStack Nova's parameter for the quotas of one user, which a zone does not have."""

    user_id: Text = ""
