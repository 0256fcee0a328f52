"""Code shared by the command lines of `builders` and `hf_scripts`."""
