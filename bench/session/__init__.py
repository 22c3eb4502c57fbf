"""One run from settings to summary."""
