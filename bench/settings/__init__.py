"""Flags and files become settings."""
