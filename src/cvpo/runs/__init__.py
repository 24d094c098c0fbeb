"""A run on disk: its directory, its checkpoints, where its metrics go."""
