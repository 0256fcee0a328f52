"""What listing sources, choosing classes and planning rows cost."""
