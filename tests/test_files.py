"""Files are written whole or not at all; compression goes by name and by content."""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from _cases import all_pairs

from sklstruct import LanguageModel, _files
from sklstruct._cli import main
from sklstruct._files import DamagedData, check_writable, open_read, open_write
from sklstruct.compat import kenlm
from sklstruct.compat.fasttext import load_model
from sklstruct.datasets import load_sparse_labels, read_conll, save_sparse_labels
from sklstruct.symbols import TextFile
from sklstruct.text import TextClassifier

DATA = np.random.default_rng(0).integers(0, 64, 300_000).astype(np.uint8).tobytes()
UNPACK = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}
UNPACK[".xz"] = lzma.decompress
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


def has_zstd():
    try:
        return find_spec(ZSTD) is not None
    except ModuleNotFoundError:
        return False


# Child processes import the file alone, which starts faster than the package.
HERE = os.path.dirname(_files.__file__)
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files and signals")


def put(target, data=DATA):
    with open_write(target) as file:
        for i in range(0, len(data), 10_000):
            file.write(data[i : i + 10_000])


def get(source):
    out = []
    with open_read(source) as (file, _):
        while chunk := file.read(7_000):
            out.append(chunk)
    return b"".join(out)


# ------------------------------------------------------------------ whole files


@pytest.mark.parametrize("ahead", [b"", b"read already"])
@pytest.mark.parametrize("suffix", UNPACK)
def test_a_file_that_is_read_is_a_whole_file(suffix, ahead, tmp_path):
    lines = [b"%d\n" % i for i in range(20_000)]
    data = b"".join(lines)
    path = tmp_path / "data"
    path.write_bytes(ahead + PACK.get(suffix, bytes)(data))
    with open(path, "rb") as below:
        below.seek(len(ahead))
        with open_read(below) as (file, label):
            assert label == str(path)
            assert file.read(3) + file.readline() == b"0\n1\n"
            assert list(file) == lines[2:]
            assert file.read() == b"" and file.tell() == len(data)
            assert file.seek(-2, io.SEEK_END) == len(data) - 2
            assert file.read() == data[-2:]
            assert file.seek(len(data) // 2) and file.seek(7, io.SEEK_CUR)
            assert file.read() == data[len(data) // 2 + 7 :]
            assert file.seek(0) == 0 and file.read() == data
        assert not below.closed


def test_a_file_that_cannot_seek_is_not_seekable():
    with open_read(Reluctant(b"0\n1\n2\n", 1)) as (file, _):
        assert not file.seekable() and list(file) == [b"0\n", b"1\n", b"2\n"]
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0)


class Broken(io.BytesIO):
    name = "of a broken disk"

    def read(self, size=-1):
        if self.tell() > 10_000:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


@pytest.mark.parametrize("pack", [bytes, *PACK.values()])
def test_errors_of_reading_name_the_file(pack):
    with (
        pytest.raises(OSError, match="of a broken disk"),
        open_read(Broken(pack(DATA))) as (file, _),
    ):
        file.read()


# ------------------------------------------------------------------ compression


@pytest.mark.parametrize("suffix", UNPACK)
def test_suffix_compresses_and_content_tells(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    put(path)
    stored = path.read_bytes()
    assert UNPACK[suffix](stored) == DATA
    assert (len(stored) < len(DATA)) == (suffix != "")
    assert get(path) == get(str(path)) == DATA
    # Neither the name nor the time is in the bytes, and the name says nothing.
    other = tmp_path / f"other{suffix.upper()}"
    put(other)
    assert other.read_bytes() == stored
    renamed = tmp_path / "renamed.txt"
    os.replace(other, renamed)
    assert get(renamed) == get(io.BytesIO(stored)) == DATA
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, "renamed.txt"])


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_files_of_other_programs(suffix, data, tmp_path):
    packed = PACK[suffix](data)
    assert get(io.BytesIO(packed)) == data
    assert get(io.BytesIO(packed + packed)) == 2 * data  # one member after the other


@pytest.mark.skipif(not has_zstd(), reason=f"needs {ZSTD}")
def test_zstd(tmp_path):
    path = tmp_path / "data.zst"
    put(path)
    assert path.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert get(path) == DATA
    with pytest.raises(DamagedData, match="broken zstd data"):
        get(io.BytesIO(path.read_bytes()[:-3]))


@pytest.mark.skipif(has_zstd(), reason=f"{ZSTD} is there")
def test_zstd_that_is_absent(tmp_path):
    path = tmp_path / "data.zst"
    with pytest.raises(ValueError, match=r"data.zst.*zstd.*no module compression"):
        put(path)
    assert not path.exists()
    with pytest.raises(ValueError, match=r"data needs zstd.*no module compression"):
        get(io.BytesIO(b"\x28\xb5\x2f\xfd" + DATA))


@pytest.mark.parametrize(
    "suffix", [".Z", ".zip", ".lz4", ".7z", ".lzma", ".br", ".tgz", ".tar", ".zstd"]
)
def test_other_compressions_are_refused_by_name(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    message = f"path_or_file=.*data{suffix}.*cannot be written; use one of .gz, .bz2"
    with pytest.raises(ValueError, match=message):
        put(path)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("damage", ["cut", "changed", "head only"])
def test_damaged_data(suffix, damage):
    packed = bytearray(PACK[suffix](DATA))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    elif damage == "head only":
        del packed[6:]
    else:
        for at in range(1000, 1100):
            packed[at] ^= 0x55
    with pytest.raises(DamagedData, match=r"broken (gzip|bzip2|xz) data: "):
        get(io.BytesIO(bytes(packed)))


# ---------------------------------------------------------------- file objects


def test_file_objects_are_plain_and_stay_open():
    file = io.BytesIO()
    file.name = "data.gz"
    put(file)
    assert file.getvalue() == DATA
    file.seek(0)
    assert get(file) == DATA and not file.closed


class Reluctant(io.RawIOBase):
    """Takes and gives a few bytes at a time, and cannot seek."""

    def __init__(self, data=b"", step=1000):
        self.data, self.step = bytearray(data), step

    def writable(self):
        return True

    def readable(self):
        return True

    def write(self, data):
        taken = bytes(data[: self.step])
        self.data += taken
        return len(taken)

    def read(self, size=-1):
        size = min(self.step, len(self.data) if size < 0 else size)
        out = bytes(self.data[:size])
        del self.data[:size]
        return out


def test_streams_that_take_and_give_parts():
    stream = Reluctant(step=333)
    put(stream)
    assert bytes(stream.data) == DATA
    for step in (1, 5, 1000):
        short = DATA[:5000]
        assert get(Reluctant(short, step)) == short
        assert get(Reluctant(gzip.compress(short), step)) == short
        assert get(Reluctant(lzma.compress(short), step)) == short
    with pytest.raises(OSError, match="took none"):
        put(Reluctant(step=0))

    class Waits(Reluctant):
        def write(self, data):
            return None

    with pytest.raises(OSError, match="took none"):
        put(Waits())


def test_writers_that_do_not_count():
    class Wrapper:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(bytes(data))

    wrapper = Wrapper()
    put(wrapper)
    assert b"".join(wrapper.parts) == DATA


def test_text_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"path_or_file is open as text.*BytesIO"):
        put(io.StringIO())
    with pytest.raises(ValueError, match=r"data is open as text.*BytesIO"):
        get(io.StringIO("text"))
    path = tmp_path / "text"
    with open(path, "w") as file, pytest.raises(ValueError, match="open as text"):
        put(file)
    path.write_text("something")
    with open(path) as file, pytest.raises(ValueError, match="text is open as text"):
        get(file)


@pytest.mark.parametrize("value", [None, 7, b"bytes", ["list"]])
def test_neither_path_nor_file(value):
    for use in (put, get):
        with pytest.raises(ValueError, match="path_or_file must be a path or a binary"):
            use(value)


@pytest.mark.parametrize("value", [None, 7, ["list"]])
def test_errors_name_the_parameter_that_is_not_a_path(value):
    doors = [
        ("path must be a path", load_model),
        ("path must be a path", kenlm.Model),
        ("path must be a path or a binary file", LanguageModel.load),
        ("paths must be one path or more", load_sparse_labels),
    ]
    if value is not None:  # None is the folder of the system
        doors.append(("folder must be a path", lambda v: TextFile("text", folder=v)))
    for message, function in doors:
        with pytest.raises(ValueError, match=f"^{message}, got "):
            function(value)
    with pytest.raises(ValueError, match="^path must be a path or a binary"):
        save_sparse_labels(value, [[1.0]], [[1]])


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"


def test_a_pointer_of_git_lfs_is_not_the_file(tmp_path, capsys):
    """By every reader: a pointer is text, which readers of text would take."""
    path = tmp_path / "text.txt"
    path.write_bytes(POINTER)
    message = "text.txt: a pointer of git-lfs.* run git lfs pull; it begins with 'versi"
    for read in (
        get,
        partial(read_conll, columns=("form", "pos")),
        load_sparse_labels,
        TextClassifier.load,
        load_model,
        lambda path: list(TextFile(path)),
    ):
        with pytest.raises(ValueError, match=message):
            read(path)
    with pytest.raises(ValueError, match="^data: a pointer of git-lfs"):
        get(io.BytesIO(POINTER))
    model = str(tmp_path / "model")
    TextClassifier("letters").fit(["ab", "cd"] * 5, [0, 1] * 5).reduce().save(model)
    with suppress(SystemExit):
        assert main(["classify", "predict", model, str(path)]) == 1
    assert re.search(message, capsys.readouterr().err)
    for text in POINTER[:21], b"version 7\n", POINTER[1:]:
        path.write_bytes(text)
        assert get(path) == text


def test_reader_that_gives_no_bytes():
    class Nothing:
        def read(self, size):
            return None

    with pytest.raises(ValueError, match="data must give bytes when it is read"):
        get(Nothing())


# ---------------------------------------------------------------- whole or not


class Stop(BaseException):
    """Like KeyboardInterrupt, no Exception."""


@pytest.mark.parametrize(
    *all_pairs(
        suffix=UNPACK, error=[ValueError, Stop, KeyboardInterrupt], old=[True, False]
    )
)
def test_an_exception_leaves_the_old_file(suffix, error, old, tmp_path):
    path = tmp_path / f"data{suffix}"
    if old:
        path.write_bytes(b"old")
    with pytest.raises(error), open_write(path) as file:
        file.write(DATA)
        raise error
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    if old:
        assert path.read_bytes() == b"old"


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from _files import open_write
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    with open_write(sys.argv[1]) as file:
        for i in range(100):
            file.write(bytes(range(256)) * 40)
            file.write(str(hash((i, "salt"))).encode() * 500)
        # what packs well comes out when the file is closed
        import random
        file.write(random.Random(0).randbytes(200_000))
except OSError as exc:
    print("OSError", exc.errno)
"""


@posix
@pytest.mark.parametrize("suffix", UNPACK)
def test_a_full_disk_leaves_the_old_file(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    put(path)
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-P", "-c", FULL, path, HERE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("OSError"), done
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from _files import open_write
with open_write(sys.argv[1]) as file:
    file.write(bytes(1_000_000))
    print("written", flush=True)
    time.sleep(3600)
"""


@posix
@pytest.mark.parametrize("suffix", UNPACK)
def test_a_killed_process_leaves_the_old_file(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    path.write_bytes(b"old")
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED, path, HERE], stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"written\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert path.read_bytes() == b"old"
    left = [name for name in os.listdir(tmp_path) if name != path.name]
    assert all(name.startswith(".") and name.endswith(".tmp") for name in left)
    put(path)  # files that are left are not in the way
    assert get(path) == DATA


@posix
def test_bytes_and_names_are_synced(tmp_path, monkeypatch):
    path, steps = tmp_path / "data.bin", []

    def sync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        steps.append("folder" if is_folder else os.fstat(handle).st_size)

    replace = os.replace
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(
        os, "replace", lambda *names: (steps.append("renamed"), replace(*names))
    )
    put(path)
    # After a failure of power a name that was synced has all its bytes.
    assert steps == [len(DATA), "renamed", "folder"]
    with _files.open_there(path) as file:
        file.write(b"first")
    assert steps[3:] == [len(DATA)]
    assert get(path) == b"first" + DATA[5:]


@posix
def test_mode_and_links_stay(tmp_path):
    path, link = tmp_path / "data", tmp_path / "link"
    old = os.umask(0o027)
    try:
        put(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(old)
    path.chmod(0o604)
    link.symlink_to(path.name)
    put(link, b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    dangling = tmp_path / "dangling"
    dangling.symlink_to("target")
    put(dangling, b"made")
    assert dangling.is_symlink() and (tmp_path / "target").read_bytes() == b"made"


@posix
def test_devices_and_pipes_are_written_in_place(tmp_path):
    put(os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space"):
            put("/dev/full")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    put(pipe, DATA[:5000])
    assert child.communicate()[0] == DATA[:5000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(OSError, match="tmp|directory"):
        put(tmp_path)
    with pytest.raises(FileNotFoundError, match="the folder .*no folder' does not"):
        put(tmp_path / "no folder" / "data")
    with pytest.raises(FileNotFoundError):
        get(tmp_path / "none")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("path, why", [("", "empty"), ("a\0b", "null character")])
def test_paths_that_cannot_be_names_of_files(path, why):
    for use in (put, get, partial(check_writable, name="path")):
        with pytest.raises(ValueError, match=f"cannot be the name of a file.*{why}"):
            use(path)


def test_a_folder_that_takes_no_files_is_there(tmp_path, monkeypatch):
    """A new file in /proc fails with the error of a file that is absent."""

    def refuse(path, *_):
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(FileNotFoundError, match="no new file can be made in the fold"):
        put(tmp_path / "data")


def test_read_only_files_and_folders(tmp_path, monkeypatch):
    """As any user but root meets them."""
    path = tmp_path / "data"
    put(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(PermissionError, match="may not be written"):
            put(path)

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(PermissionError, match=r"no new file.*folder.*data'$"):
            put(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["data"]


def test_two_writers_at_once(tmp_path):
    """Each writes its own file aside; the last to finish gives the content."""
    path = tmp_path / "data"
    with open_write(path) as one:
        one.write(b"one")
        with open_write(path) as two:
            two.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
def test_no_file_stays_open(tmp_path):
    def fail():
        with open_write(tmp_path / "data") as file:
            file.write(b"new")
            raise KeyError

    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        put(tmp_path / "data")
        assert get(tmp_path / "data") == DATA
        with pytest.raises(KeyError):
            fail()
    assert os.listdir("/proc/self/fd") == before
