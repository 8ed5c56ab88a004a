"""Subcommand mix; tables with given weights are mixed without scikit-learn."""

from __future__ import annotations

import argparse

from .. import exchange
from ..backoff import mix as mix_tables
from ._files import is_pickle, source_of, write_model
from ._tables import print_figures, progress


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
    models = []
    for path in paths:
        with progress(arguments, f"reading {path}"):
            models.append(exchange.read(source_of(path)))
    with progress(arguments, "mixing"):
        model = mix_tables(models, weights)
    with progress(arguments, f"writing {arguments.output}"):
        write_model(model, arguments.output)
    figures = {
        "weights": {p: w / sum(weights) for p, w in zip(paths, weights)},
        "weight_gap": None,
        "n_words": model.n_classes,
    }
    # The model may go to standard output.
    print_figures(figures, arguments.json, arguments.output == "-")
