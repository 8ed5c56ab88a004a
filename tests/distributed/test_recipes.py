"""The recipes of the guide for scoring on clusters, as they are written there."""

import os
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from sklstruct import KneserNeyLM
from sklstruct.language_model import LanguageModel

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "user_guide" / "distributed.rst"
TEXTS = [f"{a} {b} {a}" for a in ("one", "two", "three") for b in ("four", "five")] * 5


def recipe(name):
    """The code block of a name."""
    text = GUIDE.read_text(encoding="utf-8")
    pattern = rf"\.\. code-block:: python\n   :name: {name}\n\n((?:    .*\n|\n)+)"
    [code] = re.findall(pattern, text)
    return textwrap.dedent(code)


@pytest.fixture
def wanted(tmp_path, monkeypatch):
    """{sentence: its score}, in a folder with the model and the sentences."""
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXTS)
    lm.save(tmp_path / "model.sklm")
    for i in range(2):
        (tmp_path / f"texts-{i}.txt").write_text("\n".join(TEXTS[i::2]) + "\n")
    (tmp_path / "texts.parquet").mkdir()
    for i in range(3):
        table = pyarrow.table({"text": TEXTS[i::3], "id": range(i, len(TEXTS), 3)})
        parquet.write_table(table, tmp_path / "texts.parquet" / f"{i}.parquet")
    monkeypatch.chdir(tmp_path)
    return dict(zip(TEXTS, lm.score_samples(TEXTS)))


def run(name):
    # Functions of the main program are sent to workers by value, as these must be.
    space = {"__name__": "__main__"}
    exec(recipe(name), space)
    return space


def check_table(wanted):
    table = parquet.read_table("scores.parquet").to_pydict()
    assert sorted(table["text"]) == sorted(TEXTS)
    assert table["score"] == [wanted[text] for text in table["text"]]


def test_dask(wanted):
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    with dask.config.set(scheduler="processes", num_workers=2):
        run("recipe-dask")
    check_table(wanted)
    for i in range(2):
        scores = Path(f"scores-{i}.txt").read_text().split()
        assert scores == [repr(wanted[text]) for text in TEXTS[i::2]]


def test_ray(wanted, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs Ray")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        run("recipe-ray")
    finally:
        ray.shutdown()
    check_table(wanted)


def test_spark(wanted, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs PySpark, and Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    settings = sql.SparkSession.builder.master("local[2]")
    spark = settings.config("spark.ui.enabled", "false").getOrCreate()
    try:
        run("recipe-spark")
    finally:
        spark.stop()
    check_table(wanted)


def test_arrow(wanted):
    batches = run("recipe-arrow")
    assert set(batches["scores"]) <= set(wanted.values())
    assert np.size(batches["scores"]) > 3
    assert os.path.isdir("texts.parquet")
