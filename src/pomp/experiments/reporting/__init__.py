"""Reports on stores of results: numbers, sections, pages."""
