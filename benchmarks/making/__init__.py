"""What images cost that are made: resized, corrupted, attacked, generated, sealed."""
