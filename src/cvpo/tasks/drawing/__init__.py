"""Pictures and films of the built-in tasks."""
