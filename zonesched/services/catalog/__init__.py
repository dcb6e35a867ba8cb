"""Flavors, images, users, server groups and quota overrides."""
