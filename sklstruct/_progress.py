"""Reports of progress: scikit-learn's callbacks, and printed lines if verbose."""

from __future__ import annotations

from typing import Any


class Progress:
    """A task of a fit: calls the callbacks, and prints if the estimator is verbose.

    As a context manager it reports the start and the end of the task. A task may have
    subtasks (`task`) and single steps (`step`)::

        with Progress.of_fit(self, max_subtasks=self.max_iter) as progress:
            ...
            if progress.step(f"objective {value:.6g}"):
                break  # a callback asks to stop

    After an exception the end of the task is not reported; `with_callbacks` around
    `fit` closes the callbacks in any case. `stopped`: whether a callback asked, at the
    end of this task, to stop the loop over such tasks.

    prefix: start of every printed line. verbose: 0 prints nothing, v > 0 the text of
    every v-th step; None: the parameter `verbose` of the estimator, or 0.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        prefix: str = "",
        verbose: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.context = context
        self.prefix = prefix
        self.verbose = int(
            getattr(estimator, "verbose", 0) if verbose is None else verbose
        )
        self.stopped = False
        self._n_steps = 0

    @classmethod
    def of_fit(
        cls, estimator: Any, max_subtasks: int | None, verbose: int | None = None
    ) -> Progress:
        """The task of the whole fit; called once, in a method with `with_callbacks`.

        max_subtasks: the largest number of tasks or steps; None if unknown.
        """
        context = estimator._init_callback_context(max_subtasks=max_subtasks)
        return cls(estimator, context, verbose=verbose)

    def task(
        self, name: str, max_subtasks: int | None = None, prefix: str = ""
    ) -> Progress:
        """A subtask with its own steps; `prefix` follows the prefix of this task."""
        context = self.context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return Progress(self.estimator, context, self.prefix + prefix, self.verbose)

    def step(self, text: str = "", name: str = "iteration") -> bool:
        """Report a finished piece of work; True if a callback asks to stop."""
        if self.verbose > 0 and self._n_steps % self.verbose == 0:
            kind = type(self.estimator).__name__
            print(f"[{kind}] {self.prefix}{text}", flush=True)
        self._n_steps += 1
        context = self.context.subcontext(task_name=name)
        with Progress(self.estimator, context, verbose=0) as step:
            pass
        return step.stopped

    def __enter__(self) -> Progress:
        self.context.call_on_fit_task_begin(estimator=self.estimator)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stopped = self.context.call_on_fit_task_end(estimator=self.estimator)
