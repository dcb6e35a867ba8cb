"""Tests of one zone and its database, in this process."""
