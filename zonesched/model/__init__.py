"""Frozen values that every other part speaks in; no I/O."""
