"""`python -m bench`."""

import io
import sys

from bench.cli import main

if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="backslashreplace")  # a locale that lacks a letter ends no run
sys.exit(main(sys.argv[1:]))
