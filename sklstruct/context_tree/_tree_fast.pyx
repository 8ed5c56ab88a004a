"""Kernels of the context tree (placeholder until the build commit)."""
