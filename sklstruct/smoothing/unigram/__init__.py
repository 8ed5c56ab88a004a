"""Unigram smoothers: a distribution over the classes from their counts alone."""
