"""Fuzz targets: one for each parser that reads from outside."""
