"""Declarations of benchmarks: configs, splits, classes and quotas, as values that check themselves."""
