"""The older solvers of maximum entropy models, for comparison; and L-BFGS-B of SciPy.

Table 1.1 of Nelakanti's thesis: generalised and improved iterative scaling (GIS, IIS:
all weights at once), sequential conditional scaling and coordinate descent (SCIS, CD:
one weight after the other). Each moves a weight by d to the minimum, over non-negative
weights, of an upper bound of the objective that depends on this weight alone,

    sum_j beta E_j / s_j exp(s_j d) - beta c d                  GIS, IIS, SCIS
    beta (E - c) d + h / beta^2 (exp(beta |d|) - 1 - beta |d|)  CD

plus the penalty. c is the observed count of the feature beta, E its expected count, E_j
the part of E whose deepest pair of the class is at depth j, and h the second derivative
of the loss. s_j is the largest sum of features: of all depths (GIS), of depths up to j
(IIS), or beta alone (SCIS). Darroch and Ratcliff 1972; Della Pietra et al. 1997;
Goodman 2002; Huang et al. 2010. NumPy, without compiled loops: compare the passes of
SCIS and CD with those of other solvers, not their seconds.
"""

from contextlib import suppress
from math import exp, inf, log

import numpy as np
from scipy.optimize import minimize

from sklstruct.loglinear._solvers import Result, Solver, relative_residual

DIAGONAL = 0.6  # the factor of the metric in which the residual is measured


def measured(job, w, g):
    """(objective, residual) at w; g becomes the gradient of the loss."""
    f = job.loss.value_and_gradient(w, g)
    squared, value = job.penalty.step(DIAGONAL, w, g, np.empty_like(w))
    return f + value, relative_residual(squared, job.problem)


def of_pairs(problem, by_level):
    """One number per pair of a function of (lo, hi, level)."""
    out = np.empty(problem.n_pairs)
    for k, (lo, hi) in enumerate(problem.levels):
        out[lo:hi] = by_level(lo, hi, k)
    return out


class Descent(Solver):
    """Steps that lower the objective from any point."""

    needs = ("step", "alone")
    signed = False

    def move(self, job, w, g):
        """Change w and the gradient g by one step."""
        raise NotImplementedError

    def solve(self, job, w):
        problem, history = job.problem, []
        self.beta = of_pairs(problem, problem.beta.of)
        alone = job.penalty.alone
        self.l1 = of_pairs(problem, lambda *pairs: alone(*pairs)[0])
        self.l2 = of_pairs(problem, lambda *pairs: alone(*pairs)[1])
        g = np.empty_like(w)
        while True:
            objective, optimality = measured(job, w, g)
            history.append(objective)
            stopped = job.report(len(history) - 1, objective, optimality)
            if optimality <= self.tol or stopped or len(history) == self.max_iter:
                status = "converged" if optimality <= self.tol else "stopped"
                return Result(w, history, objective, optimality, status)
            self.move(job, w, g)


class GIS(Descent):
    """Generalised iterative scaling."""

    def split(self, problem, expected):
        """E and s of each term of the bound: arrays of shape (n_terms, n_pairs)."""
        rate = np.sum(problem.beta_by_depth)
        return expected[None], np.full((1, expected.size), rate)

    def move(self, job, w, g):
        problem, beta = job.problem, self.beta
        count = problem.count
        e, s = self.split(problem, np.maximum(g / beta + count, 1e-15 * count))
        e *= beta
        r = beta * count - self.l1 - self.l2 * w
        total = e.sum(axis=0)
        # From the right of the root, where Newton's method falls at every step.
        with np.errstate(all="ignore"):
            d = np.where(total < r, np.log(r / total) / s.min(axis=0), 0.0)
        # Without a squared term and with r <= 0 the minimum is at a weight of 0.
        alive = (count > 0) & ((r > 0) | (self.l2 > 0))
        for _ in range(100):
            v = e * np.exp(s * d)
            slope = np.where(alive, (s * v).sum(axis=0) + self.l2, 1.0)
            step = np.where(alive, (v.sum(axis=0) + self.l2 * d - r) / slope, 0.0)
            d -= step
            if np.all(np.abs(step) <= 1e-12):
                break
        w[:] = np.where(alive, np.maximum(w + d, 0.0), 0.0)


class IIS(GIS):
    """Improved iterative scaling, on a tree that is not collapsed."""

    def split(self, problem, expected):
        # The samples whose deepest pair is p are those of p without those of its
        # child pairs; up the tree, level by level.
        n = problem.n_levels
        shares = np.zeros((n, expected.size))
        for k in range(n - 1, -1, -1):
            lo, hi = problem.levels[k]
            here = shares[:, lo:hi]
            here[k] = np.maximum(expected[lo:hi] - here[k + 1 :].sum(axis=0), 0.0)
            if k:
                up = problem.pair_parent[lo:hi]
                for j in range(k, n):
                    shares[j] += np.bincount(up, here[j], expected.size)
        rates = np.cumsum(problem.beta_by_depth)[:, None]
        return shares, np.broadcast_to(rates, shares.shape)


class SCIS(Descent):
    """Sequential conditional iterative scaling."""

    def prepare(self, problem):
        """Contexts in the order of a walk in which those below a node are a range."""
        tree, pairs = problem.tree, problem.pairs
        parent, ends = problem.parent, problem.node_weight > 0.0
        size = ends.astype(np.int64)
        for v in range(tree.n_nodes - 1, 0, -1):
            size[parent[v]] += size[v]
        first, free = np.zeros(tree.n_nodes, int), ends.astype(np.int64)
        for v in range(1, tree.n_nodes):  # parents come first
            first[v] = free[parent[v]]
            free[parent[v]] += size[v]
            free[v] += first[v]
        self.ends = np.flatnonzero(ends)
        self.ends = self.ends[np.argsort(first[self.ends], kind="stable")]
        node = pairs.nodes()
        self.order = np.lexsort((tree.levels()[node], first[node], pairs.target))
        node = node[self.order]
        self.span = np.stack([first[node], first[node] + size[node]], axis=1).tolist()
        self.weight = problem.node_weight[self.ends]

    def solve(self, job, w):
        self.prepare(job.problem)
        return super().solve(job, w)

    def new(self, w, E, h, beta, count, l1, l2):
        """The minimum of the bound."""
        r, e = beta * count - l1 - l2 * w, beta * E
        if r <= 0.0 and l2 == 0.0:
            return 0.0
        d = log(r / e) / beta if r > e else 0.0
        for _ in range(100):
            v = e * exp(beta * d)
            step = (v + l2 * d - r) / (beta * v + l2)
            d -= step
            if abs(step) <= 1e-13:
                break
        return max(w + d, 0.0)

    def move(self, job, w, g):
        """One update of every weight, with Z of all contexts up to date."""
        problem = job.problem
        _, es, z = job.loss.value_and_scores(w)
        es, z, t = es[self.order], z[self.ends], self.weight
        numbers = [a[self.order] for a in (self.beta, problem.count, self.l1, self.l2)]
        last, target = -1, problem.pairs.target[self.order]
        s = np.zeros(z.size)  # exp(score) of the class in every context
        for p, at in enumerate(self.order):
            if target[p] != last:
                last = target[p]
                for q in range(p, np.searchsorted(target, last, "right")):
                    s[slice(*self.span[q])] = es[q]
            beta, count, l1, l2 = (float(a[p]) for a in numbers)
            if count == 0.0:
                continue  # a class never seen
            here = slice(*self.span[p])
            share = s[here] / z[here]
            E, h = t[here] @ share, beta**2 * (t[here] @ (share - share**2))
            new = self.new(w[at], E, max(h, 1e-12 * E), beta, count, l1, l2)
            z[here] += (exp(beta * (new - w[at])) - 1.0) * s[here]
            s[here] *= exp(beta * (new - w[at]))
            w[at] = new


class CD(SCIS):
    """Cyclic coordinate descent, a guarded Newton step for each weight."""

    def new(self, w, E, h, beta, count, l1, l2):
        slope = beta * (E - count) + l1 + l2 * w
        far = abs(slope)
        x = min(log(1.0 + beta * far / h) / beta, far / (h + l2))
        for _ in range(100):
            v = h * exp(beta * x)
            step = ((v - h) / beta + l2 * x - far) / (v + l2)
            x -= step
            if abs(step) <= 1e-13:
                break
        return max(w - x if slope > 0.0 else w + x, 0.0)


class Enough(Exception):
    """The tolerance or the budget ends the iterations of SciPy."""


class LBFGS(Solver):
    """L-BFGS-B of SciPy over w times the root of the metric of `DiagonalSolver`."""

    needs = ("step", "alone")
    signed = False

    def solve(self, job, w):
        problem, best = job.problem, (inf, inf, w.copy())
        scale, history = 1.0 / np.sqrt(problem.metric(1.0)), []
        alone = job.penalty.alone
        l1 = of_pairs(problem, lambda *pairs: alone(*pairs)[0])
        l2 = of_pairs(problem, lambda *pairs: alone(*pairs)[1])
        g = np.empty_like(w)

        def function(u):
            nonlocal best
            at = u * scale
            objective, optimality = measured(job, at, g)
            best = min(best, (objective, optimality, at), key=lambda b: b[0])
            history.append(best[0])
            stopped = job.report(len(history) - 1, best[0], optimality)
            if optimality <= self.tol or stopped or len(history) >= self.max_iter:
                raise Enough
            return objective, (g + l1 + l2 * at) * scale

        options = {"maxcor": 10, "ftol": 0.0, "gtol": 0.0, "maxls": 40,
                   "maxiter": self.max_iter, "maxfun": 2 * self.max_iter}  # fmt: skip
        with suppress(Enough):
            minimize(function, w / scale, jac=True, method="L-BFGS-B",
                     bounds=[(0.0, None)] * w.size, options=options)  # fmt: skip
        objective, optimality, at = best
        return Result(at, history, objective, optimality, "stopped")


SCALING = {"gis": GIS, "iis": IIS, "scis": SCIS, "cd": CD, "lbfgs": LBFGS}
