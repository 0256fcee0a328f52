"""Parts that the command lines of `builders` and `hf_scripts` share."""
