"""The command `unknown-detection`: what it is made of, by name, and how all commands show their help."""
