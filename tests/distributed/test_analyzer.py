"""The rule for words of a model that is trained on a cluster."""

import warnings

import pytest

distributed = pytest.importorskip(
    "distributed", reason='distributed is missing: pip install ".[peers]"'
)
pytest.importorskip("dask.bag", reason='dask is missing: pip install ".[peers]"')

from _clusters import on_cluster  # noqa: E402

from sklstruct.language_model import LanguageModel  # noqa: E402
from sklstruct.smoothing import WittenBellLM  # noqa: E402
from sklstruct.symbols import TextFile  # noqa: E402
from sklstruct.symbols._text import ANALYZERS  # noqa: E402

pytestmark = pytest.mark.processes

TEXT = ["12\u00a0000 euro ici", "il y a 12\u00a0000 euro", "un\x0bdeux  trois"] * 9


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_workers_split_by_the_rule_of_the_model(client, tmp_path, analyzer):
    import dask.bag

    path = tmp_path / "text"
    path.write_text("\n".join(TEXT), encoding="utf-8")
    options = {"max_depth": 2, "analyzer": analyzer}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = LanguageModel(WittenBellLM(), **options).fit(TEXT)
        perplexity = expected.perplexity(TEXT)
    bags = dask.bag.from_sequence(TEXT, npartitions=3), dask.bag.read_text(path)
    for X in (TEXT, TextFile(path), *bags):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = on_cluster(WittenBellLM(), client=client, **options).fit(X)
            found = found.compute()
            assert found.perplexity(TEXT) == perplexity
        assert found.vocabulary_.tolist() == expected.vocabulary_.tolist()
        assert found.backoff_model_ == expected.backoff_model_
        # One warning about the training, one about the scoring.
        told = [w for w in caught if "at 27 place(s)" in str(w.message)]
        assert len(told) == (0 if analyzer == "char" else 2)
