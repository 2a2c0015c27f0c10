"""Benchmarks of the reports: performance and cost of the detection, compared with other methods."""
