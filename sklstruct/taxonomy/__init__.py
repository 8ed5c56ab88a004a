"""Taxonomies of classes, learned or given, and classification along them."""
