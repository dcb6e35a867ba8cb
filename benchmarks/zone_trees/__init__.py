"""Trees of real zones, each a process, for the benchmarks that need them."""
