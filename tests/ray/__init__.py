"""What needs Ray: `make ray`."""
