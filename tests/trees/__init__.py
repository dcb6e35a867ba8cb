"""Tests of trees of zones, in this process."""
