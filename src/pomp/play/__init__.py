"""A machine watched step by step in a terminal."""
