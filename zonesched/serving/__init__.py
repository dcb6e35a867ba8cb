"""The process that serves a zone: start, sockets, request bytes."""
