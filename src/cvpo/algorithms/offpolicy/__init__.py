"""The baselines that learn from a replay."""
