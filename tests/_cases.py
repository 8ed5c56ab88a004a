"""Choice of the cases of a test with several parameters; a file without an end."""

import io
from itertools import combinations, product


def all_pairs(**values):
    """Arguments of `parametrize`: every value of a parameter meets every other value.

    Two parameters have all pairs of their values, and so have any two of more: a fault
    that needs certain values of two parameters has a case that shows it, in a fraction
    of the cases of the product. The first case holds the first value of each.
    """
    lists = [list(v) for v in values.values()]
    rows = list(product(*(range(len(v)) for v in lists)))
    seen, cases = set(), []
    while rows:
        pairs = [set(combinations(enumerate(row), 2)) - seen for row in rows]
        best = max(range(len(rows)), key=lambda i: len(pairs[i]))
        if not pairs[best]:
            break
        seen |= pairs[best]
        cases.append(tuple(v[i] for v, i in zip(lists, rows[best])))
        rows = [row for row, new in zip(rows, pairs) if new and row != rows[best]]
    return ",".join(values), cases


def each_value(**values):
    """Arguments of `parametrize`: the fewest cases with each value of each parameter.

    For parameters that do not meet in one branch of the code.
    """
    lists = [list(v) for v in values.values()]
    n = max(map(len, lists))
    return ",".join(values), [tuple(v[i % len(v)] for v in lists) for i in range(n)]


class Endless(io.RawIOBase):
    """Zeros without an end, of which a refusal needs the first bytes only."""

    taken = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.taken += len(buffer)
        assert self.taken < 1 << 25, "more is read than a refusal needs"
        buffer[:] = bytes(len(buffer))
        return len(buffer)
