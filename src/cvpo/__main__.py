"""`python -m cvpo` is the `cvpo` command."""

from cvpo.cli import main

main()
