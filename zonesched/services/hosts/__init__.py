"""Hosts, their agents, aggregates and services."""
