"""Benchmarks: lsmerge beside its peers, its kernels alone, and what an import costs.

Nothing here asserts a time. `make bench` runs `bench.compare`.
"""
