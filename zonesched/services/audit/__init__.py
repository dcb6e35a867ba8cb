"""Inconsistencies between rows, here and across zones, and their repair."""
