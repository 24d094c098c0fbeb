"""Maths that several methods use: arrays in, arrays out."""
