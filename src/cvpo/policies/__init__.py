"""A trained policy on its own: load it, evaluate it, film it."""
