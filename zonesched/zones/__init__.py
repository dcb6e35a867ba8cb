"""Child zones: who they are, how they are called, and how they are asked together."""
