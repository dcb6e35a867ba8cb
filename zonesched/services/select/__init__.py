"""Offers of a zone for a request, and the reasons for refused hosts."""
