"""Studies: many runs under one budget, compared."""
