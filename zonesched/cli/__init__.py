"""The command line: `zonesched` for people and scripts, the launcher of a zone, and the demo."""
