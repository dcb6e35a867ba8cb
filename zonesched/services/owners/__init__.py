"""Servers and reservations as their owners see them."""
