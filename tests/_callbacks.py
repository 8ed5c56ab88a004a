"""Callbacks of scikit-learn's protocol that the tests of several estimators use."""

import pytest

from sklstruct._compat import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="callbacks came with scikit-learn 1.9"
)


class StopAfter:
    """Asks to stop at the end of the n-th task of a name, and of those after it."""

    def __init__(self, name, n=1):
        self.name, self.n = name, n
        self.tasks, self.seen = [], 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.tasks.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.seen += context.task_name == self.name
        return context.task_name == self.name and self.seen >= self.n
