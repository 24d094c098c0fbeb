"""Pure maths on arrays: no networks, no config, no environment."""
