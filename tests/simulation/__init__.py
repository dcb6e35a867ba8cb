"""Trees of real zones in one thread, under a seeded clock, network and scheduler of faults.

`run.simulate(seed)` plays one seed and says what was wrong; docs/simulation.md says what is simulated.
"""
