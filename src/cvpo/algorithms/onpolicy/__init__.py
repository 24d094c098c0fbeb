"""The baselines that learn from the newest episodes only."""
