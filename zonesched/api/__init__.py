"""The HTTP surface of a zone; the only package that imports Flask."""
