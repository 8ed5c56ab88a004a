"""Penalties on a shard that is the whole tree, against those on the tree itself."""

import numpy as np
import pytest

from sklstruct.context_tree._shards import PairShard
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.loglinear import TreeLinf
from sklstruct.loglinear._problem import Problem


class Alone:
    """The exchange of the only shard."""

    def total(self, x):
        return x

    largest = total


def problems(strength, positive=True, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 5, 300).astype(np.int32)
    tokens[::17] = -1
    pairs, count = count_tokens(tokens, 3, 6, 6)  # class 5 is never seen
    shard = PairShard(pairs, pairs.tree.n_levels, Alone())
    strength = strength * np.array([1.0, 0.5, 1.0, 2.0])
    return [
        Problem(p, count, np.ones(4), strength, positive=positive)
        for p in (pairs, shard)
    ]


@pytest.mark.parametrize("strength", [0.0, 1e-3, 0.05, 0.5, 1e3])
@pytest.mark.parametrize("positive", [True, False])
def test_tree_linf_at_the_root_by_newton_is_that_by_heaps(strength, positive):
    whole, shard = problems(strength, positive)
    rng = np.random.default_rng(1)
    bounds = [TreeLinf().bind(problem) for problem in (whole, shard)]
    for _ in range(20):
        v = rng.standard_exponential(whole.n_pairs) * rng.integers(0, 2, whole.n_pairs)
        v[: whole.n_classes] *= rng.integers(0, 2, whole.n_classes)
        if not positive:
            v *= rng.choice([-1.0, 1.0], whole.n_pairs)
        metric = 10.0 ** rng.uniform(-2, 2, whole.n_pairs)
        a, b = (bound.prox(v, metric, np.empty_like(v)) for bound in bounds)
        np.testing.assert_allclose(b, a, atol=1e-13)
        assert bounds[0].value(v) == pytest.approx(bounds[1].value(v), rel=1e-14)
