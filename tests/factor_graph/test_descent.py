"""The quasi-Newton method of the conditional likelihood."""

import numpy as np
import pytest

from sklstruct.factor_graph._descent import _MEMORY, _Memory, descend


def inverse_hessian(pairs, n):
    """The estimate of BFGS as a matrix, from a multiple of the identity."""
    h = eye = np.eye(n)
    for s, c in pairs[-1:]:
        h = eye * (s @ c) / (c @ c)
    for s, c in pairs:
        a = eye - np.outer(s, c) / (s @ c)
        h = a @ h @ a.T + np.outer(s, s) / (s @ c)
    return h


@pytest.mark.parametrize("moving", [None, np.array([0, 1, 2, 4, 6, 7])])
def test_directions_are_those_of_bfgs_with_a_matrix(moving):
    # The last steps alone count, also after each row was used once.
    rng = np.random.default_rng(0)
    n = 8
    root = rng.normal(size=(n, n))
    hessian = root @ root.T + np.eye(n)
    memory, steps = _Memory(n), []
    part = np.arange(n) if moving is None else moving
    for _ in range(_MEMORY + 3):
        steps.append(rng.normal(size=n))
        memory.add(steps[-1], hessian @ steps[-1])
        slope = rng.normal(size=n)
        pairs = [(s[part], (hessian @ s)[part]) for s in steps[-_MEMORY:]]
        pairs = [(s, c) for s, c in pairs if s @ c > 1e-12 * (c @ c)]
        right = np.zeros(n)
        right[part] = -inverse_hessian(pairs, part.size) @ slope[part]
        found = memory.direction(slope, moving)
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-9)


def test_minimum_of_a_quadratic_with_both_penalties():
    # Without coupling, each weight has a formula: soft thresholding.
    curve, at = np.array([1.0, 10.0, 0.1, 5.0]), np.array([2.0, -1.0, 3.0, 0.01])
    points = []

    def report(w, value, gradient):
        points.append(w)
        return len(points) > 50

    descend(
        lambda w: (0.5 * curve @ (w - at) ** 2, curve * (w - at)),
        curve, 0.2, 0.5, report,
    )  # fmt: skip
    pull = curve * at
    right = np.sign(pull) * np.maximum(np.abs(pull) - 0.2, 0.0) / (curve + 1.0)
    np.testing.assert_allclose(points[-1], right, rtol=1e-7)
