"""Interchangeable learning algorithms. Adding one: write one file, add one line here."""

from algorithms.core import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {}
