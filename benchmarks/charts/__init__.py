"""Charts of what the benchmarks have printed."""
