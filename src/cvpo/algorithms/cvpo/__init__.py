"""CVPO, in the order of one update: cost control, E-step, M-step; `learner` puts them together."""
