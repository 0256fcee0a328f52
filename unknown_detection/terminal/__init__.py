"""Ctrl-C and progress on a terminal, for the commands of all packages; imports none of them."""
