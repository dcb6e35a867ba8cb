"""Builders and fakes that tests share."""
