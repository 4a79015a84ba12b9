"""What can be said about a machine: bounds, what it can do without, explanations, pictures."""
