"""Frozen values that all other packages share; no I/O."""
