"""Stage 1: programs as vectors, so that neighbours behave alike."""
