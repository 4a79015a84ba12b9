"""Trainings: all stages of a machine, in a folder that can be resumed."""
