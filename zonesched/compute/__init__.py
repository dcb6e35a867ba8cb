"""The compute agent: registers hosts with a zone and runs the instances that the zone wants on them."""
