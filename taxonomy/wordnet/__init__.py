"""WordNet 3.0's nouns as arrays, and similarity of synsets."""
