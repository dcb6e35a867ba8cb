"""The demo: a tree of zones as processes on this machine, and one zone alone."""
