"""Keep the sizes of an instance's flavor in its row, so that the use of a project reads no request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

BOOTED = "SELECT id, caller_id AS sender, {flavor} AS text FROM reservations WHERE spec LIKE '{{%'"
RESIZED = """
    SELECT uuid AS id, CASE
        WHEN observed_resizes_begun > observed_resizes_confirmed + observed_resizes_reverted
        THEN desired_flavor ELSE flavor END AS text
    FROM instance_states
"""


def upgrade() -> None:
    for name in ("vcpus", "ram_mb"):
        op.add_column("instances", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    flavor = "CAST(spec AS json)->>'flavor'" if is_postgresql else "json_extract(spec, '$.flavor')"
    size = "CAST(CAST(text AS json)->>'{}' AS integer)" if is_postgresql else "json_extract(text, '$.{}')"
    sizes = f"vcpus = {size.format('vcpus')}, ram_mb = {size.format('ram')}"
    booted = BOOTED.format(flavor=flavor)
    is_of_boot = "found.id = instances.reservation_id AND sender = instances.caller_id"
    is_resized = "found.id = instances.uuid AND text LIKE '{%'"
    for found, is_its_own in ((booted, is_of_boot), (RESIZED, is_resized)):
        # Texts of this file alone.
        op.execute(f"UPDATE instances SET {sizes} FROM ({found}) AS found WHERE {is_its_own}")  # nosec B608
