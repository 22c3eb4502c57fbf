"""Generators of problems from a seed, in the official row formats."""
