"""The one reporter of progress: scikit-learn's callbacks, and lines if verbose."""

from __future__ import annotations

from typing import Any


class Progress:
    """A task of a fit: tells the callbacks, and prints if the estimator is verbose.

    As a context manager it tells when the task begins and ends. A task may have
    subtasks of its own (`task`) and single steps (`step`)::

        with Progress.of_fit(self, max_subtasks=self.max_iter) as progress:
            ...
            if progress.step(f"objective {value:.6g}"):
                break  # a callback asks to stop

    An exception leaves the end of the task untold; `with_callbacks` around `fit`
    tears the callbacks down in any case.

    Parameters
    ----------
    estimator : CallbackSupportMixin
        With a parameter `verbose`: 0 prints nothing, v the text of every v-th step.

    context : CallbackContext
        Of this task.

    prefix : str, default=""
        Begins every line.

    Attributes
    ----------
    stopped : bool
        Whether a callback asked, at the end of this task, to stop the loop of such
        tasks.
    """

    def __init__(self, estimator: Any, context: Any, prefix: str = "") -> None:
        self.estimator = estimator
        self.context = context
        self.prefix = prefix
        self.stopped = False
        self._n_steps = 0

    @classmethod
    def of_fit(cls, estimator: Any, max_subtasks: int | None) -> Progress:
        """The whole fit; to be called once, in a method under `with_callbacks`.

        max_subtasks: the largest number of tasks or steps; None if unknown.
        """
        context = estimator._init_callback_context(max_subtasks=max_subtasks)
        return cls(estimator, context)

    def task(
        self, name: str, max_subtasks: int | None = None, prefix: str = ""
    ) -> Progress:
        """A subtask with steps of its own; `prefix` is added to that of its lines."""
        context = self.context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return Progress(self.estimator, context, self.prefix + prefix)

    def step(self, text: str = "", name: str = "iteration") -> bool:
        """Report a piece of work that is done; True if a callback asks to stop."""
        every = int(self.estimator.verbose)
        if every > 0 and self._n_steps % every == 0:
            kind = type(self.estimator).__name__
            print(f"[{kind}] {self.prefix}{text}", flush=True)
        self._n_steps += 1
        with Progress(self.estimator, self.context.subcontext(task_name=name)) as step:
            pass
        return step.stopped

    def __enter__(self) -> Progress:
        self.context.call_on_fit_task_begin(estimator=self.estimator)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stopped = self.context.call_on_fit_task_end(estimator=self.estimator)
