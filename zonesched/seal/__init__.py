"""Sealing of entries and encryption of secrets; the only package that imports cryptography."""
