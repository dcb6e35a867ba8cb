"""Faults in a tree of real zones under load, and what is left of it afterwards."""
