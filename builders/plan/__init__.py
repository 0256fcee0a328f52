"""Planning: which images each split takes, and why the others are left out."""
