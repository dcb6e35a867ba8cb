"""Placements: their moves, their claims, the calls to children that follow from them."""
