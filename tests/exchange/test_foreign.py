"""Files of other kinds are named, by every way to read a file of n-grams."""

import gzip
import io
import pickle
import re
import struct
import warnings

import pytest
from _cases import Endless

from sklstruct import LanguageModel, exchange
from sklstruct._cli import main
from sklstruct.compat import kenlm
from sklstruct.exchange._formats import what_is
from sklstruct.exchange._kenlm import probing_image
from sklstruct.smoothing import AdditiveLM


def small():
    return LanguageModel(AdditiveLM(), max_depth=1).fit(["a b", "b a"])


def arpa():
    file = io.BytesIO()
    small().save(file)
    return file.getvalue()


def binary(kind=0):
    data = bytearray(probing_image(small().backoff_model_))
    data[96:100] = struct.pack("<I", kind)
    return bytes(data)


KENLM = b"mmap lm http://kheafield.com/code "
FILES = {
    "git-lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
        "pointer of git-lfs.*; it begins with 'version https://git-lfs.github.com/spec",
    ),
    "empty": (b"", "the file is empty"),
    "empty and packed": (gzip.compress(b""), "the file is empty"),
    "version 4": (
        KENLM + b"format version 4\n\0\0\0",
        "KenLM binary of version 4.*code format version 4'",
    ),
    "unfinished": (KENLM + b"incomplete\n\0\0", "build_binary did not finish"),
    "rest costs": (binary(1), "is probing with rest costs; only probing and trie"),
    "type 6": (binary(6), "is of type 6; only probing and trie can be read"),
    "iARPA": (b"iARPA\n\\data\\\n", "iARPA file of IRSTLM"),
    "pickle": (
        pickle.dumps(["a"], protocol=4),
        r"a pickle; read it with joblib.*ends in \.pkl",
    ),
    "skops": (b"PK\x03\x04\x14", "skops file with skops.io.load"),
    "text classifier": (b"sklstruct texts\n\0", r"read it with TextClassifier\.load"),
    "CR alone": (arpa().replace(b"\n", b"\r"), "lines end in CR alone"),
    "text": (b"\n\nthis is a text\nof two lines\n", r"begins with 'this is a text'"),
}


DOORS = {
    "read": exchange.read,
    "read as ARPA": lambda path: exchange.read(path, format="arpa"),
    "load": LanguageModel.load,
    "compat": kenlm.Model,
}


@pytest.mark.parametrize(
    "name, door",
    [(name, door) for name in FILES for door in ("read", "read as ARPA")]
    + [(name, "compat") for name in ("empty", "version 4", "type 6", "text")]
    + [(name, "load") for name in ("empty", "text")],
)
def test_files_of_other_kinds_are_named(name, door, tmp_path):
    data, message = FILES[name]
    path = tmp_path / "model.arpa"
    path.write_bytes(data)
    with pytest.raises((ValueError, OSError), match=message) as error:
        DOORS[door](path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("format", [None, "kenlm", "trie", "native"])
def test_a_large_file_of_another_kind_is_refused_by_its_first_bytes(format):
    with pytest.raises(ValueError, match=r"data: not a|data, line 1: .*longer than"):
        exchange.read(Endless(), format=format)


def test_an_option_does_not_hide_what_a_file_is():
    for data, message in FILES["empty"], FILES["git-lfs"]:
        with pytest.raises(ValueError, match=message):
            LanguageModel.load(io.BytesIO(data), mmap=False)


@pytest.mark.parametrize("command", ["info", "evaluate", "query", "build_binary"])
@pytest.mark.parametrize("name", ["version 4", "text"])
def test_commands_name_files_of_other_kinds(name, command, tmp_path, capsys):
    data, message = FILES[name]
    path, text = tmp_path / "model.arpa", tmp_path / "text"
    path.write_bytes(data)
    text.write_text("a b\n")
    more = {"info": [], "evaluate": [str(text)], "query": []}
    more["build_binary"] = [str(tmp_path / "out.bin")]
    try:
        code = main([command, str(path), *more[command]])
    except SystemExit as exc:
        code = exc.code
    shown = capsys.readouterr().err + str(code)
    assert re.search(message, shown) and str(path) in shown


def test_files_of_n_grams_are_not_taken_for_others(tmp_path):
    for data in (arpa(), b"made by a tool\n\n" + arpa(), b"\n" * 600 + arpa()):
        assert what_is(data[:512]) is None
        assert exchange.read(io.BytesIO(data)).order == 2
    assert what_is(binary()[:512]) == "a KenLM binary"
    with pytest.raises(ValueError, match="a KenLM binary"):
        exchange.read(io.BytesIO(binary()), format="arpa")
    native = io.BytesIO()
    small().save(native, format="native")
    native.seek(0)
    with pytest.raises(ValueError, match="a native file of sklstruct; leave format"):
        exchange.read(native, format="arpa")


def test_short_heads_are_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for head in (b"m", b"mmap lm http://kheafield.com/code ", KENLM + b"format"):
            what_is(head)
