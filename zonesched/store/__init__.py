"""Rows of one zone; the only package that imports SQLAlchemy."""
