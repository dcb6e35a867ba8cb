"""Attackers of a tree of real zones by role, and the measuring of the harm that they do to others."""
