"""The gradients of several methods at the same weights: how noisy they are, and whether they point one way."""
