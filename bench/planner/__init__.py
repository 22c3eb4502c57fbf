"""What a method needs on given hardware, predicted: memory by role and phase, time by phase, the cheapest setting."""
