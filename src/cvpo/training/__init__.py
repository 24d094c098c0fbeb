"""Training a policy: the loop, the replay, and what the user sees of it."""
