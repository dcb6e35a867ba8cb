"""Hints through a message broker: somebody should look now, and not only when its next look is due."""
