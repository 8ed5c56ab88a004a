"""How many full rows of float64 are made at a time."""

# 64 MB a block: bounded memory where an (n_samples, n_classes) matrix of a whole
# text would be gigabytes, and few enough blocks for their overhead not to matter.
_BLOCK_BYTES = 1 << 26


def rows_per_block(width):
    """Rows of `width` numbers in one block, at least 1."""
    return max(1, _BLOCK_BYTES // (8 * width))
