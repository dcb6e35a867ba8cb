"""Bodies and queries of /os-quota-sets."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from zonesched.api.schemas.fields import MAX_INT, Amount, LenientQuery, Schema, Text


class QuotaSet(Schema):
    """Quotas to set, of which a zone limits `instances`; the others may have the value that they have."""

    instances: Amount | None = None
    cores: int | None = Field(default=None, ge=-1, le=MAX_INT)
    ram: int | None = Field(default=None, ge=-1, le=MAX_INT)
    key_pairs: int | None = Field(default=None, ge=-1, le=MAX_INT)
    metadata_items: int | None = Field(default=None, ge=-1, le=MAX_INT)
    server_groups: int | None = Field(default=None, ge=-1, le=MAX_INT)
    server_group_members: int | None = Field(default=None, ge=-1, le=MAX_INT)
    force: bool = False

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
