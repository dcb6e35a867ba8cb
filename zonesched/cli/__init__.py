"""The zonesched command and the launcher of a zone."""
