"""Characters that no name or text of a zone has: they would act on the terminals and pages that show it."""

from __future__ import annotations

CONTROLS_OF_ASCII = r"\x00-\x1f\x7f"
"""Control characters that have always been refused, so that no image and no flavor of any zone has one."""
CONTROLS = rf"{CONTROLS_OF_ASCII}\x80-\x9f\u2028-\u202e\u2066-\u2069"
"""For the set of a regular expression: control characters, of eight bits too, ends of lines, and those that
turn the order of the characters around them."""
