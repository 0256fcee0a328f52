"""What all command lines of `builders` and `hf_scripts` share."""
