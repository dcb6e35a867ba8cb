"""Recovery of a zone whose rows were restored from a copy: who tells what, and what follows from it."""
