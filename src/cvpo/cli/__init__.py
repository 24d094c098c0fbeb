"""The `cvpo` command: one file for each subcommand, joined in `app`."""

from cvpo.cli.app import main

__all__ = ["main"]
