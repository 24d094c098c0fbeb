"""What runs wherever an environment runs: a copy of it, and the process around that copy.

This folder is all that another interpreter gets. It needs Python 3.8, NumPy and the environment's own packages, and
imports nothing else of this project. Copies that live in the training process are made by the same code.
"""
