"""Life of a built instance: its desired state, and what is observed of it."""
