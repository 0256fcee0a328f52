"""The command lines of `builders`, one a file; nothing but the tests imports them."""
