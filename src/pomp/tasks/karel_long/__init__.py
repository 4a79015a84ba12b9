"""The five tasks of the KAREL-LONG problem set."""
