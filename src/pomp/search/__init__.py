"""Stage 2: search for effective, diverse, compatible programs."""
