"""What every room stands on: errors, budgets, trees of settings and the words of a record. Standard library only."""
