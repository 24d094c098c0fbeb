"""The E-step: the best distribution over candidate actions within a KL ball and the cost limits."""
