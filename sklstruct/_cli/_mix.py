"""Subcommand mix; tables with given weights are mixed without scikit-learn."""

from __future__ import annotations

import argparse

from ..backoff import mix as mix_tables
from ._files import is_pickle
from ._tables import load_table, print_figures, progress, save_table


def mix(arguments: argparse.Namespace) -> None:
    """``sklstruct mix``."""
    paths, weights = arguments.models, arguments.weights
    if weights is not None and len(weights) != len(paths):
        raise ValueError(
            f"--weights has {len(weights)} numbers for {len(paths)} models"
        )
    if weights is None or any(map(is_pickle, (*paths, arguments.output))):
        # Learning weights and pickles need models of sentences.
        from ._models import mix_models

        mix_models(arguments)
        return
    models = [load_table(arguments, path) for path in paths]
    with progress(arguments, "mixing"):
        model = mix_tables(models, weights)
    save_table(arguments, model)
    figures = {
        "weights": [(p, w / sum(weights)) for p, w in zip(paths, weights)],
        "weight_gap": None,
        "n_words": model.n_classes,
    }
    # The model may go to standard output.
    print_figures(figures, arguments.json, arguments.output == "-")
