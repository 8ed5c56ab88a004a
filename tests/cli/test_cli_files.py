"""Files, streams and signals of the command: what is checked, and when."""

import io
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import joblib
import numpy as np
import pytest

from sklstruct import LanguageModel, _cli, exchange
from sklstruct._cli._tables import print_figures
from sklstruct.datasets import load_python_topics
from sklstruct.symbols import TextFile

TEXT = [" ".join(words) for words in load_python_topics()[:60]]
POSIX = pytest.mark.skipif(os.name == "nt", reason="streams and signals of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    code = run("lmplz", "-o", 2, "--text", "t.txt", "--arpa", "m.arpa", "-q",
               "--discount_fallback")  # fmt: skip
    assert code == 0
    return tmp_path


def run(*arguments, stdin=None, monkeypatch=None):
    if stdin is not None:
        stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
    return _cli.main([str(a) for a in arguments])


# ------------------------------------------------------- outputs, before the work

# Commands that train, read or convert, without their output.
WITH_OUTPUT = {
    "train": ["train", "t.txt", "-n", "2", "-q", "-o"],
    "best": ["train", "t.txt", "-q", "--model", "best", "-o"],
    "prune": ["prune", "m.arpa", "--to", "20", "-o"],
    "mix": ["mix", "m.arpa", "m.arpa", "--tune", "t.txt", "-o"],
    "convert": ["convert", "m.arpa"],
    "lmplz": ["lmplz", "-o", "2", "--text", "t.txt", "--discount_fallback", "--arpa"],
    "build_binary": ["build_binary", "m.arpa"],
}


def nothing_is_read(monkeypatch):
    """Make every reader of a text or a model fail."""

    def fail(*_, **__):
        raise AssertionError("the work has begun")

    for module, name in (
        ("sklstruct._cli._models", "text_of"),
        ("sklstruct._cli._models", "load"),
        ("sklstruct._cli._kenlm", "TextFile"),
        ("sklstruct._cli._kenlm.exchange", "read"),
    ):
        monkeypatch.setattr(f"{module}.{name}", fail)


@pytest.mark.parametrize("command", WITH_OUTPUT)
def test_outputs_are_checked_first(command, folder, capsys, monkeypatch):
    import sklstruct._cli._kenlm
    import sklstruct._cli._models  # noqa: F401

    nothing_is_read(monkeypatch)
    given = WITH_OUTPUT[command]
    Path("a_folder").mkdir()
    before = sorted(os.listdir())
    option = "-o" if command in ("train", "best", "prune", "mix") else "OUTPUT"
    option = "--arpa" if command == "lmplz" else option
    suffix = ".pkl" if command == "best" else ".arpa"
    cases = {
        "": f"{option} is empty: name a file",
        f"nodir/x{suffix}": f"{option} cannot be written (the folder",
        "a_folder": f"{option}='a_folder' must be a regular file",
        f"x{suffix}.zip": ".zip",
        f"t.txt/x{suffix}": "t.txt",
    }
    if sys.version_info < (3, 14) and find_spec("backports") is None:
        cases[f"x{suffix}.zst"] = "zstd"
    for path, message in cases.items():
        if command == "best" and path in ("", "a_folder", "x.pkl.zip"):
            continue  # "best" wants a .pkl in any case
        assert run(*given, path) == 1, path
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1, (path, err)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", ["x.xyz", "x", "x.json", "x.txt", "x.arpa.1"])
def test_one_rule_of_suffixes(name, folder, capsys):
    """The command, `save` and `write` know the same suffixes."""
    lm = LanguageModel.load("m.arpa")
    for write in (
        lambda: lm.save(name),
        lambda: exchange.write(lm.backoff_model_, name),
    ):
        with pytest.raises(ValueError, match=re.escape(f"{name!r}: the suffix gives")):
            write()
    for command in ("train", "prune", "mix", "convert"):
        assert run(*WITH_OUTPUT[command], name) == 1
        message = capsys.readouterr().err
        assert "the suffix gives the format" in message
        assert "the suffix .pkl in the command" in message
    assert not Path(name).exists()
    lm.save(name, format="arpa")  # the format that is asked for
    assert Path(name).read_bytes().startswith(b"\\data\\")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.arpa", b"\\data\\"),
        ("x.lm", b"\\data\\"),
        ("x.bin", b"mmap lm"),
        ("x.klm", b"mmap lm"),
        ("x.sklm", b"sklstruct"),
        ("x.arpa.gz", b"\x1f\x8b"),
    ],
)
def test_the_suffix_is_the_format(name, start, folder):
    lm = LanguageModel.load("m.arpa")
    lm.save(name)
    by_save = Path(name).read_bytes()
    assert by_save.startswith(start) or name == "x.sklm"
    exchange.write(lm.backoff_model_, name)
    assert Path(name).read_bytes() == by_save
    assert run("convert", "m.arpa", name) == 0
    assert exchange.read(name).n_pairs == lm.backoff_model_.n_pairs


@pytest.mark.parametrize("n", [20, len(TEXT)])
def test_models_that_no_table_holds(n, folder, capsys):
    lm = LanguageModel("better").fit(TEXT[:n])
    with pytest.raises(AttributeError, match=r"^save .*; joblib\.dump"):
        lm.save("m.arpa")
    with pytest.raises(ValueError, match=r"joblib\.dump, or the suffix \.pkl"):
        lm.save("m.pkl")
    outputs = []
    for name in ("m.pkl", "m.pkl.gz", "packed.pkl"):
        joblib.dump(lm, name, compress=3 if name == "packed.pkl" else 0)
        assert run("evaluate", name, "t.txt") == 0
        outputs.append(capsys.readouterr().out)
    value = float(outputs[0].split()[1])
    assert value == pytest.approx(lm.perplexity(TextFile("t.txt")), abs=1e-4)
    assert outputs[1:] == outputs[:1] * 2


def test_outputs_that_are_inputs(folder, capsys, monkeypatch):
    text, model = Path("t.txt").read_bytes(), Path("m.arpa").read_bytes()
    Path("words").write_text("the of")
    os.link("t.txt", "hard.arpa")
    os.symlink("m.arpa", "soft.arpa")
    for given in (
        ["build_binary", "m.arpa", "m.arpa"],
        ["build_binary", "probing", "m.arpa", "soft.arpa"],
        ["convert", "soft.arpa", "m.arpa"],
        ["train", "t.txt", "-o", "hard.arpa"],
        ["train", "*.txt", "-o", "hard.arpa"],
        ["train", "t.txt", "--tune", "soft.arpa", "-o", "m.arpa"],
        ["train", "t.txt", "--vocabulary", "hard.arpa", "-o", "t.txt"],
        ["lmplz", "-o", "2", "--limit_vocab_file", "words", "--arpa", "words"],
        ["lmplz", "-o", "2", "--text", "t.txt", "--arpa", "hard.arpa"],
        ["mix", "m.arpa", "--tune", "t.txt", "-o", "hard.arpa"],
    ):
        assert run(*given) == 1, given
        assert "would be read and written" in capsys.readouterr().err, given
    # Standard input is a file, too.
    with open("t.txt", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run("lmplz", "-o", 2, "--arpa", "t.txt") == 1
    assert "would be read and written" in capsys.readouterr().err
    assert Path("t.txt").read_bytes() == text and Path("m.arpa").read_bytes() == model


# ------------------------------------------------------------------ standard input


def test_models_from_standard_input(folder, capsys, monkeypatch):
    model = Path("m.arpa").read_bytes()
    assert run("convert", "m.arpa", "m.bin") == 0
    assert run("convert", "m.arpa", "a.sklm") == 0
    for path in ("m.arpa", "m.bin"):
        data = Path(path).read_bytes()
        given = {"stdin": data, "monkeypatch": monkeypatch}
        assert run("convert", "-", "b.sklm", **given) == 0
        a, b = exchange.read("a.sklm"), exchange.read("b.sklm")
        assert a.n_pairs == b.n_pairs
        assert run("info", "-", "--json", **given) == 0
        out = capsys.readouterr().out
        assert '"order": 2' in out and "bytes" not in out
        assert run("evaluate", "-", "t.txt", **given) == 0
        perplexity = capsys.readouterr().out
        assert run("evaluate", path, "t.txt") == 0
        assert capsys.readouterr().out == perplexity
    given = {"stdin": model, "monkeypatch": monkeypatch}
    assert run("prune", "-", "-o", "p.arpa", "--to", 300, **given) == 0
    weights = ["--weights", "0.5,0.5"]
    assert run("mix", "-", "m.bin", *weights, "-o", "x.arpa", **given) == 0


@pytest.mark.parametrize(
    "given",
    [
        ["evaluate", "-"],
        ["evaluate", "-", "-"],
        ["query", "-"],
        ["train", "-", "--vocabulary", "-", "-o", "x.arpa"],
        ["lmplz", "-o", "2", "--limit_vocab_file", "-"],
        ["mix", "-", "-", "--weights", "0.5,0.5", "-o", "x.arpa"],
    ],
)
def test_standard_input_is_read_once(given, folder, capsys):
    assert run(*given) == 1
    assert "can be read once only" in capsys.readouterr().err


def test_a_name_that_begins_with_a_dash(folder, capsys):
    assert run("convert", "m.arpa", "--", "-m.sklm") == 0
    assert run("info", "--", "-m.sklm") == run("info", "--", "m.arpa") == 0
    with pytest.raises(SystemExit, match="2"):
        run("info", "-m.sklm")
    assert run("classify", "predict", "--", "-absent", "t.txt") == 1
    assert "No such file or directory: '-absent'" in capsys.readouterr().err


def test_a_binary_to_standard_output(folder, capsysbinary):
    assert run("build_binary", "m.arpa", "a.bin") == 0
    assert run("build_binary", "m.arpa", "-") == 0
    assert capsysbinary.readouterr().out == Path("a.bin").read_bytes()
    assert not Path("-").exists()


def test_standard_input_has_one_name(folder, capsys, monkeypatch):
    assert run("query", "-") == 1
    assert "MODEL must be a file" in capsys.readouterr().err
    for given in (["evaluate", "m.arpa", "-"], ["lmplz", "-o", 2]):
        assert run(*given, stdin=b"a\xff\n", monkeypatch=monkeypatch) == 1
        assert "standard input, line 1: invalid UTF-8" in capsys.readouterr().err
    text = b"unheard of\n" * 9
    assert run("evaluate", "m.arpa", stdin=text, monkeypatch=monkeypatch) == 0
    assert "standard input: 9 of 18 words are unknown" in capsys.readouterr().err
    file = io.BytesIO(b"no model")
    file.name = "<stdin>"
    with pytest.raises(ValueError, match="standard input, line 2: the file has no"):
        exchange.read(file)


def test_json_has_no_infinite_number(capsys):
    print_figures({"perplexity": np.inf, "rows": [{"p": np.nan, "q": 0.1}]}, True)
    out = '{"perplexity": null, "rows": [{"p": null, "q": 0.1}]}\n'
    assert capsys.readouterr().out == out


def test_vocabularies(folder, capsys, monkeypatch):
    """A list of words, from standard input, and Kaldi's table of words and ids."""
    words = sorted({word for line in TEXT for word in line.split()})[:30]
    table = ["<eps>", *words, "#0", "<s>", "</s>"]
    lines = [f"{word} {i}\n" for i, word in enumerate(table)]
    Path("list").write_text("\n".join(words), encoding="utf-8")
    Path("words.txt").write_text("".join(reversed(lines)), encoding="utf-8")
    given = ["train", "t.txt", "-n", 2, "-o"]
    assert run(*given, "list.arpa", "--vocabulary", "list") == 0
    expected = Path("list.arpa").read_bytes()
    capsys.readouterr()
    assert run(*given, "kaldi.arpa", "--vocabulary", "words.txt") == 0
    assert "words.txt is a table of words and ids: 30 words" in capsys.readouterr().err
    assert Path("kaldi.arpa").read_bytes() == expected
    data = Path("list").read_bytes()
    more = {"stdin": data, "monkeypatch": monkeypatch}
    assert run(*given, "stdin.arpa", "--vocabulary", "-", **more) == 0
    assert Path("stdin.arpa").read_bytes() == expected
    # Lines of two words that are not such a table.
    Path("pairs").write_text("the 1\nof 1\n")
    assert run(*given, "pairs.arpa", "--vocabulary", "pairs", "-q") == 0
    assert set(LanguageModel.load("pairs.arpa").vocabulary_) >= {"the", "of", "1"}
    assert run("prune", "m.arpa", "-o", "p.arpa", "--vocabulary", "words.txt") == 0
    assert "30 words" in capsys.readouterr().err


@POSIX
@pytest.mark.parametrize("name", ["m.arpa", "m.bin"])
def test_query_reads_a_pipe(name, folder, capsys, monkeypatch):
    assert run("build_binary", "m.arpa", "m.bin") == 0
    text = Path("t.txt").read_bytes()
    capsys.readouterr()
    assert run("query", name, stdin=text, monkeypatch=monkeypatch) == 0
    expected = capsys.readouterr().out
    os.mkfifo("pipe")
    feed = f"open('pipe', 'wb').write(open({name!r}, 'rb').read())"
    with subprocess.Popen([sys.executable, "-c", feed]):
        assert run("query", "pipe", stdin=text, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == expected


def test_query_of_a_pickle(folder, capsys):
    assert run("convert", "m.arpa", "m.pkl") == 0
    assert run("query", "m.pkl") == 1
    assert "m.pkl is a pickle" in capsys.readouterr().err


# ----------------------------------------------------------------- closed streams


def shell(line, **more):
    """Run a line of the shell with our command in $S."""
    environment = os.environ | {"S": f"{sys.executable} -m sklstruct"}
    environment |= more.pop("env", {})
    return subprocess.run(
        ["sh", "-c", line], env=environment, capture_output=True, check=False, **more
    )


@pytest.mark.processes
@POSIX
def test_closed_streams(folder):
    """No traceback; an error only where the stream is needed."""
    assert run("convert", "m.arpa", "m.bin") == 0
    for line, code, message in (
        ("$S convert m.bin x.arpa >&-", 0, ""),
        ("$S convert m.bin y.arpa <&- >&- 2>&-", 0, ""),
        ("$S lmplz -o 2 --text t.txt --arpa z.arpa --discount_fallback 2>&-", 0, ""),
        ("$S info m.arpa >&-", 1, "standard output is closed"),
        ("$S train - -o w.arpa <&-", 1, "standard input is closed"),
        ("$S lmplz -o 2 --discount_fallback <&-", 1, "standard input is closed"),
        ("$S query m.bin <&-", 1, "standard input is closed"),
        ("$S query m.bin < t.txt >&-", 1, "standard output is closed"),
        ("$S convert m.arpa - >&-", 1, "standard output is closed"),
        ("$S info absent.arpa 2>&-", 1, ""),
        ("$S --help >&-", 1, "standard output is closed"),
    ):
        done = shell(line)
        err = done.stderr.decode()
        assert (done.returncode, done.stdout) == (code, b""), (line, err)
        assert message in err and "Traceback" not in err, (line, err)
        assert err.count("\n") <= 1, (line, err)
    # No file took the number of a closed stream, and what is printed there.
    assert run("convert", "m.bin", "expected.arpa") == 0
    for name in ("x.arpa", "y.arpa"):
        assert Path(name).read_bytes() == Path("expected.arpa").read_bytes()
    assert Path("z.arpa").read_bytes() == Path("m.arpa").read_bytes()


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_output(folder):
    done = shell("$S info m.arpa > /dev/full")
    assert done.returncode == 1 and b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


@POSIX
def test_devices_as_outputs(folder):
    done = shell("$S convert m.arpa /dev/stdout | cat > x.arpa")
    assert done.returncode == 0, done.stderr
    assert run("convert", "m.arpa", "a.arpa") == 0
    assert Path("x.arpa").read_bytes() == Path("a.arpa").read_bytes()
    assert run("convert", "m.arpa", "/dev/null") == 0


@pytest.mark.processes
@POSIX
def test_utf8_in_any_locale(folder):
    """Words come out as the bytes that went in."""
    line = "h\u00e9 \u05d4 a\n".encode()
    Path("u.txt").write_bytes(line * 3)
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shell("$S lmplz -o 2 --discount_fallback < u.txt > u.arpa", env=env)
    for command in (
        "$S evaluate u.arpa u.txt --per-sentence",
        "$S query u.arpa < u.txt",
    ):
        done = shell(command, env=env)
        assert done.returncode == 0, done.stderr
        assert "\u05d4".encode() in done.stdout
    Path("odd.txt").write_bytes(b"a \xff a\n")
    done = shell("$S query u.arpa < odd.txt", env=env)
    assert b"\t\xff=0 1 " in done.stdout
    done = shell("$S convert u.arpa \u05d4.xyz", env=env)
    assert done.returncode == 1 and b"Traceback" not in done.stderr


# ------------------------------------------------------------------------ signals

# A writer that says when it has begun, and does not end.
SLOW = """
import sys, time
from sklstruct._cli import main
from sklstruct.exchange._formats import FORMATS
write = FORMATS["arpa"].write
def slow(model, **options):
    put = write(model, **options)
    def store(file):
        put(file)
        file.flush()
        print("begun", flush=True)
        time.sleep(60)
    return store
FORMATS["arpa"] = FORMATS["arpa"]._replace(write=slow)
sys.exit(main(sys.argv[1:]))
"""


@POSIX
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_signals_leave_nothing(name, folder):
    number = getattr(signal, name)
    os.mkdir("out")
    Path("out/x.arpa").write_text("old")

    def as_in_a_terminal():
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)

    # Coverage handles SIGTERM in the processes that it measures, and the command leaves
    # handlers of others as they are.
    env = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "convert", "m.arpa", "out/x.arpa"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=as_in_a_terminal,
    ) as process:
        assert process.stdout.readline() == b"begun\n"
        assert len(os.listdir("out")) == 2
        process.send_signal(number)
        code = process.wait(600)
        assert process.stderr.read() == b""
    assert code == (130 if name == "SIGINT" else -number)
    assert os.listdir("out") == ["x.arpa"]
    assert Path("out/x.arpa").read_text() == "old"


@POSIX
def test_handlers_are_put_back(folder):
    before = signal.getsignal(signal.SIGTERM)
    assert run("convert", "m.arpa", "x.arpa") == 0
    assert signal.getsignal(signal.SIGTERM) is before


# ---------------------------------------------------------------------- arguments


def test_version(capsys):
    import sklstruct

    with pytest.raises(SystemExit) as caught:
        run("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"sklstruct {sklstruct.__version__}\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["evalute", "x"], "did you mean 'evaluate'?"),
        (["build-binary", "x"], "did you mean 'build_binary'?"),
        (["perplexity"], "use train, evaluate"),
        (["train", "x", "-o", "y", "-n", "0"], "-n/--order: '0': a whole number of"),
        (["sample", "x", "-k", "9" * 20], "-k: 99999999999999999999: at most 92233"),
        (["sample", "x", "-k", "many"], "-k: 'many': a whole number of at least 0"),
        (["sample", "x", "--seed", "4294967296"], "at most 4294967295"),
    ],
)
def test_messages_of_arguments(given, message, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*given)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_options_between_files(folder, capsys):
    given = ["-n", 2, "-q", "-o"]
    assert run("train", "t.txt", "t.txt", *given, "a.arpa") == 0
    assert run("train", "t.txt", *given, "b.arpa", "t.txt") == 0
    assert Path("a.arpa").read_bytes() == Path("b.arpa").read_bytes()
    assert run("evaluate", "m.arpa", "--json", "t.txt") == 0
