"""Anybody's environment behind one interface."""
