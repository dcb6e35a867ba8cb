"""Make room for an encrypted secret in the zone's identity."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    with op.batch_alter_table("identity") as identity:
        identity.alter_column("host_id_secret", type_=sa.Text(), existing_nullable=False)
