"""The six tasks of the KAREL problem set."""
