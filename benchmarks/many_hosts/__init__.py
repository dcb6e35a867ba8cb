"""Hosts and requests by the hundred thousand, alike on every run: the benchmarks of one zone start here."""
