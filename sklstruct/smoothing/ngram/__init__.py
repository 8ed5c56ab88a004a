"""Smoothed n-gram models: one file per smoother, and a common base."""
