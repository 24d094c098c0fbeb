"""Every learning method, and what they share."""
