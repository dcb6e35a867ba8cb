"""Largest values of options that have no smaller one of their own."""

from __future__ import annotations

LONGEST_S = 1e9
"""Seconds, 31 years. No thread can wait for 292 years, and the zone would not notice until then."""

MOST = 2**31 - 1
"""Counts and bytes, as in the bodies of the API: rows and answers have no room for more than 64 bits."""
