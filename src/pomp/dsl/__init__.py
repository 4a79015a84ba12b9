"""The language: text, trees, token ids and code; no worlds."""
