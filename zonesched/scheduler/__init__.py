"""Pure choice of hosts: arrays in, values out."""
