"""What is here: hardware presets, versions, the doctor."""
