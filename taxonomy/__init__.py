"""What the classes are: WordNet 3.0's nouns as arrays, similarity, the papers' rules, class tables as CSV."""
