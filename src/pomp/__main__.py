"""`python -m pomp`."""

from pomp.cli.main import main

if __name__ == "__main__":  # not in the processes of a search
    main()
