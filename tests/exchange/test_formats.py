"""Every format of the table: what is written comes back, from any kind of file."""

import gzip
import inspect
import io
import json
import os
import pkgutil
import zipfile
from importlib import import_module

import numpy as np
import pytest
from _cases import each_value

from sklstruct import KneserNeyLM, LanguageModel, exchange
from sklstruct._files import COMPRESSIONS
from sklstruct.backoff import BackoffModel
from sklstruct.context_tree import ContextTree, Pairs
from sklstruct.exchange._formats import FORMATS, Format, format_to_write
from sklstruct.symbols import Labels

TEXT = ["the cat sat", "the dog ran", "a cat ran", "the dog sat down"]
HELD_OUT = ["the cat ran", "a dog sat", "never seen"]
SUFFIXES = ["", *(c.suffix for c in COMPRESSIONS if c.name != "zstd")]


def read_json(file, label, *, prefix=""):
    """A format of a stranger: the file is handed to a module as it is."""
    held = json.load(file)
    classes, symbols = (
        [prefix * (w[0] != "<") + w for w in held[name]]
        for name in ("classes", "symbols")
    )
    tree = ContextTree(*held["tree"], len(symbols))
    labels = Labels(classes, symbols, **held["settings"])
    return BackoffModel(Pairs(tree, *held["pairs"]), *held["numbers"], labels)


def write_json(model, *, indent=None):
    tree, pairs, labels = model.tree, model.pairs, model.labels
    held = {
        "tree": [tree.parent.tolist(), tree.symbol.tolist()],
        "pairs": [pairs.ptr.tolist(), pairs.target.tolist()],
        "numbers": [model.log_prob.tolist(), model.log_backoff.tolist()],
        "classes": labels.classes.tolist(),
        "symbols": labels.symbols.tolist(),
        "settings": labels.settings,
    }

    def put(file):
        text = io.TextIOWrapper(file, encoding="utf-8")
        json.dump(held, text, indent=indent)
        text.detach()

    return put


@pytest.fixture(params=[*FORMATS, "json of a stranger"])
def format(request, monkeypatch):
    monkeypatch.setitem(FORMATS, "json of a stranger", Format(read_json, write_json))
    return request.param


def test_every_reader_and_writer_is_in_the_table():
    """A file with ``read_mine(file, label)`` or ``write_mine(model)`` is a format."""
    first = {"read": ["file", "label"], "write": ["model"]}
    for module in pkgutil.iter_modules(exchange.__path__):
        functions = vars(import_module(f"sklstruct.exchange.{module.name}"))
        for name, function in functions.items():
            way, _, rest = name.partition("_")
            if rest and way in first and inspect.isfunction(function):
                parameters = list(inspect.signature(function).parameters)
                if parameters[: len(first[way])] == first[way]:
                    known = [getattr(entry, way) for entry in FORMATS.values()]
                    assert function in known, (
                        f"{name}: add its format to FORMATS in "
                        "sklstruct/exchange/_formats.py"
                    )


def fitted(unknown="<unk>"):
    min_count = 1 if unknown is None else 2
    model = LanguageModel(
        KneserNeyLM(discount=0.5), max_depth=2, min_count=min_count, unknown=unknown
    )
    return model.fit(TEXT)


def assert_same(got, want):
    """One model up to the decimals of a format of text."""
    assert set(got.labels.classes.tolist()) == set(want.labels.classes.tolist())
    for mark in ("start", "end", "unknown"):
        assert getattr(got.labels, mark) == getattr(want.labels, mark)
    contexts = [[a, b] for a in ("<s>", "the", "cat") for b in ("the", "a", "dog")]
    rows = [
        model.rows(model.locate(model.labels.encode_contexts(contexts)))[
            :, np.argsort(model.labels.classes.tolist())
        ]
        for model in (got, want)
    ]
    np.testing.assert_allclose(*rows, atol=1e-5)


@pytest.mark.parametrize(*each_value(suffix=SUFFIXES, unknown=["<unk>", None]))
def test_a_written_file_is_read_again(format, suffix, unknown, tmp_path):
    model = fitted(unknown).backoff_model_
    path = tmp_path / f"model{suffix}"
    exchange.write(model, path, format=format)
    assert_same(exchange.read(path, format=format), model)
    renamed = path.rename(tmp_path / "model.of.any.name")
    assert_same(exchange.read(str(renamed), format=format), model)
    with open(renamed, "rb") as file:
        assert_same(exchange.read(file, format=format), model)


def test_files_of_the_caller(format):
    model = fitted().backoff_model_
    file = io.BytesIO(b"ahead")
    file.seek(5)
    exchange.write(model, file, format=format)
    assert not file.closed
    file.seek(5)
    assert_same(exchange.read(file, format=format), model)

    class Pipe(io.RawIOBase):
        """Gives its bytes once, a few at a time."""

        def __init__(self, data):
            self.rest = data

        def read(self, size=-1):
            data, self.rest = self.rest[: min(size, 7)], self.rest[min(size, 7) :]
            return data

    assert_same(exchange.read(Pipe(file.getvalue()[5:]), format=format), model)


def test_a_pipe_tells_its_format():
    model = fitted().backoff_model_
    for name in ("arpa", "kenlm", "trie", "native"):
        for pack in (bytes, gzip.compress):
            file = io.BytesIO()
            exchange.write(model, file, format=name)
            read, write = os.pipe()
            with os.fdopen(read, "rb") as end, os.fdopen(write, "wb", 0) as pipe:
                pipe.write(pack(file.getvalue()))
                pipe.close()
                assert_same(exchange.read(end), model)


def test_language_models_are_saved_and_loaded(format, tmp_path):
    model = fitted()
    model.save(tmp_path / "model", format=format)
    again = LanguageModel.load(tmp_path / "model", format=format)
    assert_same(again.backoff_model_, model.backoff_model_)
    np.testing.assert_allclose(again.score(HELD_OUT), model.score(HELD_OUT), rtol=1e-5)


def test_options_belong_to_the_format(format):
    model, file = fitted().backoff_model_, io.BytesIO()
    with pytest.raises(
        TypeError, match=r"no_such is not an option to write the format"
    ):
        exchange.write(model, file, format=format, no_such=1)
    assert not file.getvalue()
    with pytest.raises(TypeError, match=r"no_such is not an option to read the format"):
        exchange.read("no such file", format=format, no_such=1)
    known = ", ".join(FORMATS)
    message = f"^format must be one of {known}, got 'no such format'$"
    with pytest.raises(ValueError, match=message):
        exchange.read(io.BytesIO(), format="no such format")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("way", ["read", "write"])
def test_formats_and_their_options_are_documented(way, name):
    method = {"read": LanguageModel.load, "write": LanguageModel.save}[way]
    text = method.__doc__
    where = f"add it to the docstring of `LanguageModel.{method.__name__}`"
    assert f'"{name}"' in text, f"format {name}: {where}"
    parameters = inspect.signature(getattr(FORMATS[name], way)).parameters.values()
    for option in (p.name for p in parameters if p.kind is p.KEYWORD_ONLY):
        assert f"`{option}`" in text, f"option {option} of {name}: {where}"


@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz"])
def test_the_name_of_a_file_tells_its_format(packed, monkeypatch):
    stranger = Format(read_json, write_json, suffixes=(".json", ".jsn"))
    monkeypatch.setitem(FORMATS, "json", stranger)
    for name, format in FORMATS.items():
        for suffix in format.suffixes:
            assert format_to_write(f"a.folder/model{suffix}{packed}") == name
    with pytest.raises(ValueError, match="the suffix gives the format"):
        format_to_write(f"model.of.any.name{packed}")
    assert format_to_write(f"model.of.any.name{packed}", "att") == "att"
    assert format_to_write(io.BytesIO()) == format_to_write(os.devnull) == "arpa"


def test_a_format_may_be_a_zip_archive(monkeypatch):
    """A format may be a zip archive, which is refused in other files."""

    def write(model):
        def put(file):
            with zipfile.ZipFile(file, "w") as archive, archive.open("a", "w") as part:
                write_json(model)(part)

        return put

    def read(file, label):
        with zipfile.ZipFile(io.BytesIO(file.read())) as archive:
            return read_json(archive.open("a"), label)

    model, file = fitted().backoff_model_, io.BytesIO()
    monkeypatch.setitem(FORMATS, "zip", Format(read, write, b"PK\x03\x04"))
    exchange.write(model, file, format="zip")
    file.seek(0)
    assert_same(exchange.read(file), model)
    monkeypatch.delitem(FORMATS, "zip")
    file.seek(0)
    with pytest.raises(ValueError, match="a zip archive"):
        exchange.read(file)


def test_options_reach_the_format(monkeypatch):
    monkeypatch.setitem(FORMATS, "json", Format(read_json, write_json))
    model, file = fitted(), io.BytesIO()
    model.save(file, format="json", indent=2)
    assert file.getvalue().startswith(b"{\n  ")
    file.seek(0)
    marked = exchange.read(file, format="json", prefix="en:")
    assert "en:cat" in marked.labels.classes.tolist()
