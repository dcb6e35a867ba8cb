"""The calls of a parent zone: hold, confirm, cancel."""
