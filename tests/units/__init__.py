"""Tests that start nothing."""
