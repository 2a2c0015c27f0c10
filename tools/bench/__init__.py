"""Benchmarks of the reports: what the detection reaches, and what it costs, against its rivals."""
