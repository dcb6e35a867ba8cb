"""Fixtures that several modules of this folder use."""

from __future__ import annotations

from tests.builders.sealed_builds import stage

__all__ = ["stage"]
