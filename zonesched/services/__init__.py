"""Use cases of a zone: select, boot, provision, serve, report."""
