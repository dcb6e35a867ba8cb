"""Child zones: registration, pending calls, sync of changes."""
