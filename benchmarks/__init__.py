"""Speed benchmarks against the tools that one would use instead: ratios of medians within one run."""
