"""Boots: from the request to instances that run."""
