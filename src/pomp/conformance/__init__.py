"""Replay recordings of the reference implementations: every transition, every program."""
