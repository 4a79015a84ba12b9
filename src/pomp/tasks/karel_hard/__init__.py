"""The four tasks of the KAREL-HARD problem set."""
