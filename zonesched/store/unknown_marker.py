"""The fault of a list whose page begins after something that the scope does not have."""

from __future__ import annotations


class UnknownMarker(Exception):
    """The marker names nothing in the scope of the list."""
