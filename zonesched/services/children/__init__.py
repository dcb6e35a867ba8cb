"""Child zones: registration, pending calls, what changed below."""
