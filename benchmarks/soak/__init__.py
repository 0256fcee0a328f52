"""The soak: disturbs commands at random, runs them again, and compares what they leave with undisturbed runs."""
