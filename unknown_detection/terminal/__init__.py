"""How every command ends on Ctrl-C, and draws progress on a terminal; imported by all packages, and imports none."""
