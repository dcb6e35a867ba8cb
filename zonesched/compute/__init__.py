"""The compute agent: registers hosts at a zone and makes run on them what the zone wants."""
