"""Constrained variational policy optimization: policies that maximise reward within a cost limit."""
