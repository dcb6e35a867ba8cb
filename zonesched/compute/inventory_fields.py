"""Names of fields in an inventory file."""

from __future__ import annotations

import re

CLASS_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
FACTS = ("name", "address", "availability_zone", "capabilities", "traits", "metrics")
WHOLE_PARTS = ("total", "reserved", "min_unit", "max_unit", "step_size")
RATIO = "ratio"


class InventoryError(Exception):
    """The inventory file cannot be used; the message names the line and the field."""
