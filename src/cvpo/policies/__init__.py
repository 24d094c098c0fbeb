"""A trained policy on its own: load it, evaluate it, film it."""

# One default for `cvpo.evaluate` and the command. Here, where nothing slow is imported, as the command's help shows it.
EVALUATION_EPISODES = 100
