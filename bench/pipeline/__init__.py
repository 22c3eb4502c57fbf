"""Everything that trains before or around reinforcement learning."""
