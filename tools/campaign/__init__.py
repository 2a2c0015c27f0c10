"""Campaigns of simulated nodes: faults found, false reports, cost (docs/measured.md)."""
