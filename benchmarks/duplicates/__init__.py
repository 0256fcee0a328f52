"""What the searches for duplicates cost, and what they find."""
