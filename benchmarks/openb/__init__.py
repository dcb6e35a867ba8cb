"""Replay of a recorded GPU cluster through a tree of real zones."""
