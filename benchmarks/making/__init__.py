"""What images cost that are resized, corrupted, attacked, generated or sealed."""
