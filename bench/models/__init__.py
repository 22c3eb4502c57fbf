"""The models: loading, adapters, sizes and counted work."""
