"""The soak: disturbs commands at random, runs them again, and compares their output with undisturbed runs."""
