"""The offer of a zone to a request, and the reasons of what it refuses."""
