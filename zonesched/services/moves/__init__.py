"""Moves of built instances from one host of this zone to another."""
