"""Smoothed n-gram models: one file a smoother, one engine for all."""
