"""The compute agent: makes real what its zone says should run."""
