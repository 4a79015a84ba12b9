"""One world: its state, its rules, its interpreter."""
