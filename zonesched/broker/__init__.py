"""Notifications through a message broker: a receiver polls now instead of when its next poll is due."""
