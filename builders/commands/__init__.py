"""The command lines of `builders`: what a user types and what is printed."""
