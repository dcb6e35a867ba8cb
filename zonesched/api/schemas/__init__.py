"""Schemas of bodies and queries, by URL noun; the OpenAPI document is made from the same classes."""
