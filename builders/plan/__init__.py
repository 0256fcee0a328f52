"""Plans which images each split takes, and records why the others are left out."""
