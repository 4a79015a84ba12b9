"""The policy: modes and the transitions between them."""
