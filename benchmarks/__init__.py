"""Speed, measured against what a person would use instead: ratios of medians within one run."""
