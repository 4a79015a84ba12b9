"""`python -m pomp`."""

from pomp.cli.main import main

main()
