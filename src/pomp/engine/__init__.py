"""Programs on worlds: compiled launch loops on CPU and GPU, and what calls them."""
