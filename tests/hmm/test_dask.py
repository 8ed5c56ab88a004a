"""Folds over a local Dask cluster, through joblib."""

import joblib
import numpy as np
import pytest
from _hmm_problems import toy
from sklearn.model_selection import cross_val_predict, cross_val_score

from sklstruct.hmm import HighOrderHMM

distributed = pytest.importorskip("dask.distributed")

pytestmark = pytest.mark.slow


def test_cross_validation_over_a_cluster():
    X, y = toy(60)
    tagger = HighOrderHMM(3)
    scores = cross_val_score(tagger, X, y, cv=3)
    labels = cross_val_predict(tagger, X, y, cv=3)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        np.testing.assert_array_equal(cross_val_score(tagger, X, y, cv=3), scores)
        again = cross_val_predict(tagger, X, y, cv=3, n_jobs=2)
    for a, b in zip(labels, again):
        assert a.tolist() == b.tolist()
