"""The parts of `bench check`: goldens, costs side by side, accuracy over seeds, and how verdicts are told."""
