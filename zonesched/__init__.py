"""zonesched: a zone-hierarchical distributed scheduler for federated multi-region clouds."""

__version__ = "0.1.0"
