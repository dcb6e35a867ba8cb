"""Packaging lives in pyproject.toml; this file lets old tools find it."""

from setuptools import setup

setup()
