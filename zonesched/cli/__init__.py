"""The command `zonesched`, for people and scripts: it calls zones over HTTP."""
