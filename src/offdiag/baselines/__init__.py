"""Baselines with the same interface."""
