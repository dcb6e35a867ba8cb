"""Count the rebuilds of instances, and keep the image that each has and is to have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0013"


def upgrade() -> None:
    for name in ("rebuilds", "rebuilt_by", "observed_rebuilds"):
        op.add_column("instance_states", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    for name in ("desired_image", "image"):
        op.add_column("instance_states", sa.Column(name, sa.Text(), nullable=False, server_default=""))
