"""ARPA files in and out of back-off models.

Reading goes through four stages, each a pass over flat arrays:
lines -> rows of word ids and values (one section at a time) -> nodes for every
context, by hashing -> breadth-first numbering -> pairs sorted by (node, class).

Writing first closes the model (every n-gram's context and suffix is in it), then
formats one order after the other.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from contextlib import contextmanager

import numpy as np

from sklstruct._checks import INT32_MAX
from sklstruct.backoff import _arpa_fast, _backoff_fast

_LN10 = np.log(10.0)
_ZERO = -99.0  # log10 of a probability of 0 in ARPA files
_CHUNK = 1 << 24
_SEPARATORS = re.compile("[\0\t\n\v\f\r \x1c-\x1f]")


class _TreeBuilder:
    """Context tree grown from rows of symbol ids, numbered breadth first at the end."""

    def __init__(self):
        self._n = 1
        self._parent = np.full(1 << 12, -1, dtype=np.int32)
        self._symbol = np.full(1 << 12, -1, dtype=np.int32)
        self._depth = np.zeros(1 << 12, dtype=np.int32)
        self._rehash()

    def _rehash(self):
        slots = 4 * len(self._parent)
        self._keys = np.full(slots, -1, dtype=np.int64)
        self._ids = np.empty(slots, dtype=np.int32)
        _arpa_fast.rehash(self._keys, self._parent, self._symbol, self._ids, self._n)

    def nodes(self, rows, width, create):
        """Provisional ids of the contexts rows[:, :width], -1 where not created.

        create : bool, or one per row.
        """
        out = np.zeros(len(rows), dtype=np.int32)
        if width == 0:
            return out
        create = np.broadcast_to(create, len(rows)).astype(np.uint8)
        row = 0
        while row < len(rows):
            row, self._n = _arpa_fast.insert_contexts(
                self._keys,
                self._ids,
                self._parent,
                self._symbol,
                self._depth,
                self._n,
                rows,
                width,
                create,
                row,
                out,
            )
            if row < len(rows):
                grown = 2 * len(self._parent) + width
                grown = 1 << (grown - 1).bit_length()
                if grown > INT32_MAX:
                    raise ValueError("the model has more than 2^30 contexts")
                for name in ("_parent", "_symbol", "_depth"):
                    old = getattr(self, name)
                    new = np.full(grown, -1, dtype=np.int32)
                    new[: self._n] = old[: self._n]
                    setattr(self, name, new)
                self._rehash()
        return out

    def finish(self):
        """Arrays (parent, symbol, level_ptr, child_ptr) and provisional -> final id."""
        n = self._n
        parent, symbol, depth = (
            a[:n] for a in (self._parent, self._symbol, self._depth)
        )
        counts = np.bincount(depth)
        level_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        by_depth = np.argsort(depth, kind="stable")
        final = np.zeros(n, dtype=np.int32)
        out_parent = np.full(n, -1, dtype=np.int32)
        out_symbol = np.full(n, -1, dtype=np.int32)
        for k in range(1, len(counts)):
            level = by_depth[level_ptr[k] : level_ptr[k + 1]]
            key = final[parent[level]].astype(np.int64) << 32 | symbol[level]
            level = level[np.argsort(key)]
            span = slice(int(level_ptr[k]), int(level_ptr[k + 1]))
            final[level] = np.arange(span.start, span.stop, dtype=np.int32)
            out_parent[span] = final[parent[level]]
            out_symbol[span] = symbol[level]
        child_ptr = np.ones(n + 1, dtype=np.int32)
        np.cumsum(np.bincount(out_parent[1:], minlength=n), out=child_ptr[1:])
        child_ptr[1:] += 1
        return (out_parent, out_symbol, level_ptr, child_ptr), final


def _pointers(nodes, n_nodes):
    """pair_ptr of pairs whose nodes are sorted."""
    out = np.zeros(n_nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(nodes, minlength=n_nodes), out=out[1:])
    return out


# ------------------------------------------------------------------ reading


class _Source:
    """Bytes of a file in chunks of whole lines, with the number of the next line."""

    def __init__(self, file, name):
        self._file = file
        self.name = name
        self.line = 1
        self._rest = b""
        self._at = 0
        self._ended = False

    def fail(self, message, line=None):
        return ValueError(f"{self.name}, line {line or self.line}: {message}")

    def _more(self):
        """Append a chunk to what is not read yet; False when nothing is left."""
        if self._ended:
            return False
        try:
            chunk = self._file.read(_CHUNK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            last = self.line + self._rest.count(b"\n", self._at)
            raise self.fail(
                f"broken gzip data at or after this line: {exc}", last
            ) from exc
        if not isinstance(chunk, (bytes, bytearray)):
            raise ValueError(
                f"{self.name} is open as text; open it as binary, for example with "
                "open(path, 'rb')."
            )
        self._rest = self._rest[self._at :] + chunk
        self._at = 0
        if not chunk:
            self._ended = True
            if not self._rest or self._rest[-1:] == b"\n":
                return False
            self._rest += b"\n"
        return True

    def _line_end(self):
        """Where the next line ends in the buffer, -1 at the end of the file."""
        while (end := self._rest.find(b"\n", self._at)) < 0:
            if not self._more():
                return -1
        return end

    def read_line(self):
        """The next line, stripped; None at the end of the file."""
        end = self._line_end()
        if end < 0:
            return None
        line = self._rest[self._at : end]
        self._at = end + 1
        self.line += 1
        return line.strip(b" \t\r")

    def skip_blank(self):
        while (end := self._line_end()) >= 0:
            if self._rest[self._at : end].strip(b" \t\r"):
                return
            self._at = end + 1
            self.line += 1

    def read_content(self):
        """The next line that is not blank; None at the end of the file."""
        self.skip_blank()
        return self.read_line()

    def parse(self, words, add_words, highest, ids, values, row):
        """Let the kernel read lines up to the end of `ids` or of the section.

        Returns (rows read so far, True at the end of the arrays).
        """
        while True:
            stop = self._rest.rfind(b"\n") + 1
            if stop > self._at:
                first = row
                row, at, code, *span = _arpa_fast.parse_block(
                    words,
                    self._rest,
                    self._at,
                    stop,
                    add_words,
                    highest,
                    ids,
                    values,
                    row,
                )
                self.line += row - first
                self._at = at
                if code == _arpa_fast.DONE:
                    return row, True
                if code == _arpa_fast.BLANK:
                    return row, False
                if code != _arpa_fast.MORE:
                    order = ids.shape[1]
                    raise self.fail(self._reason(code, order, self._rest, span))
            if not self._more():
                return row, False

    @staticmethod
    def _reason(code, order, rest, span):
        text = repr(rest[span[0] : span[1]][:80].decode("utf-8", "replace"))
        gram = f"{order}-gram"
        words = f"{order} word{'s' if order > 1 else ''}"
        if code == _arpa_fast.NO_MEMORY:
            raise MemoryError
        return {
            _arpa_fast.BAD_PROB: f"{text} is not a log10-probability.",
            _arpa_fast.POSITIVE: f"the log10-probability {text} is positive.",
            _arpa_fast.TOO_FEW: f"a {gram} must have {words}, this line has fewer.",
            _arpa_fast.TOO_MANY: f"a {gram} must have {words} and at most one back-off "
            "weight, this line has more.",
            _arpa_fast.UNKNOWN_WORD: f"{text} is not among the unigrams.",
            _arpa_fast.TWICE: f"the unigram {text} occurs twice.",
            _arpa_fast.BAD_BACKOFF: f"{text} is not a log10 back-off weight (a {gram} "
            f"must have {words}).",
            _arpa_fast.HIGHEST_BACKOFF: f"{text} is one field too many: a {gram} of a "
            f"model of order {order} has {words} and no back-off weight.",
        }[code]


def _read_counts(source):
    """The header: counts of n-grams and the numbers of the lines that give them."""
    while (line := source.read_line()) != b"\\data\\":
        if line is None:
            raise source.fail("the file has no line \\data\\: it is no ARPA file.")
    counts, lines = [], []
    while True:
        line = source.read_content()
        if line is None:
            raise source.fail("the file ends in the header: it is cut short.")
        if line.startswith(b"\\"):
            break
        match = re.fullmatch(rb"ngram[ \t]+(\d+)[ \t]*=[ \t]*(\d+)", line)
        if not match:
            text = line[:80].decode("utf-8", "replace")
            raise source.fail(
                f"{text!r} is no count: 'ngram 1=...' was expected.", source.line - 1
            )
        if int(match[1]) != len(counts) + 1:
            raise source.fail(
                f"the count of {len(counts) + 1}-grams was expected, this one is of "
                f"{int(match[1])}-grams.",
                source.line - 1,
            )
        if int(match[2]) > INT32_MAX:
            raise source.fail("more than 2^31 - 1 n-grams.", source.line - 1)
        counts.append(int(match[2]))
        lines.append(source.line - 1)
    if not counts:
        raise source.fail("the header has no counts.", source.line - 1)
    return counts, lines, line


def _read_section(source, header, words, order, count, highest):
    """One section: (rows of word ids, values, line of the first row, next header)."""
    expected = f"\\{order}-grams:".encode()
    if header != expected:
        if header is None:
            raise source.fail(
                f"the file is cut short: section {expected.decode()} is missing."
            )
        text = header[:80].decode("utf-8", "replace")
        raise source.fail(
            f"section {expected.decode()} was expected, not {text!r}.", source.line - 1
        )
    # The count of a broken header must not make us allocate: grow with the file.
    size = min(count, 1 << 16)
    ids = np.empty((size, order), dtype=np.int32)
    values = np.empty((size, 2))
    if count:
        source.skip_blank()
    first = source.line
    row, full = 0, count == 0
    while not full:
        row, full = source.parse(words, order == 1, highest, ids, values, row)
        if full and row < count:
            size = min(count, 2 * size)
            ids = np.concatenate([ids, np.empty((size - row, order), np.int32)])
            values = np.concatenate([values, np.empty((size - row, 2))])
            full = False
        elif not full:
            break
    line = source.read_content()
    if row < count:
        if line is None:
            raise source.fail(
                f"the file is cut short: {row} of {count} {order}-grams read."
            )
        raise source.fail(
            f"section {expected.decode()} ends after {row} n-grams, but the header "
            f"says ngram {order}={count}.",
            source.line - 1,
        )
    if line is not None and not line.startswith(b"\\"):
        raise source.fail(
            f"section {expected.decode()} goes on after the {count} n-grams of the "
            f"header's ngram {order}={count}.",
            source.line - 1,
        )
    return ids, values, first, line


@contextmanager
def _open_read(path_or_file):
    """(binary file, name); gzip is recognised by its magic bytes."""
    if hasattr(path_or_file, "read"):
        name = str(getattr(path_or_file, "name", "ARPA data"))
        yield _unzip(path_or_file), name
    elif isinstance(path_or_file, (str, os.PathLike)):
        with open(path_or_file, "rb") as file:
            yield _unzip(file), os.fspath(path_or_file)
    else:
        raise ValueError(
            f"path_or_file must be a path or a binary file, got {path_or_file!r}."
        )


class _Prefixed:
    """A file whose first bytes were read already."""

    def __init__(self, head, file):
        self._head, self._file = head, file

    def read(self, size=-1):
        if not self._head:
            return self._file.read(size)
        if size is None or size < 0:
            head, self._head = self._head, b""
            return head + self._file.read()
        head, self._head = self._head[:size], self._head[size:]
        return head

    def seekable(self):
        return False


def _unzip(file):
    head = file.read(2)
    if not isinstance(head, (bytes, bytearray)):
        return _Prefixed(head, file)
    if len(head) == 1:
        head += file.read(1)
    rest = _Prefixed(bytes(head), file)
    return gzip.GzipFile(fileobj=rest) if head == b"\x1f\x8b" else rest


def read_arpa(path_or_file, *, start, end, unknown, drop_zero_unknown):
    from sklstruct.backoff._model import BackoffModel

    names = {"start": start, "end": end, "unknown": unknown}
    for parameter, value in names.items():
        if not isinstance(value, str):
            raise ValueError(f"{parameter} must be a string, got {value!r}.")
    with _open_read(path_or_file) as (file, name):
        source = _Source(file, name)
        counts, lines, header = _read_counts(source)
        if counts[0] == 0:
            raise source.fail("the file has no unigrams.", lines[0])
        order = len(counts)
        words = _arpa_fast.WordTable()
        sections = []
        for k, count in enumerate(counts, 1):
            *section, header = _read_section(
                source, header, words, k, count, k == order
            )
            sections.append(section)
        if header is None:
            raise source.fail("the file is cut short: \\end\\ is missing.")
        if header != b"\\end\\":
            text = header[:80].decode("utf-8", "replace")
            raise source.fail(
                f"\\end\\ was expected, not {text!r}: the header has no count for it.",
                source.line - 1,
            )

    symbols, roles = _decode(source, words.words(), sections[0][2], names)
    return _assemble(
        BackoffModel, source, symbols, roles, sections, names, drop_zero_unknown
    )


def _decode(source, raw, first_line, names):
    """Words as strings, with the special ones renamed; ids of the special words."""
    symbols = []
    for i, word in enumerate(raw):
        try:
            symbols.append(word.decode("utf-8"))
        except UnicodeDecodeError as exc:
            raise source.fail(f"a word is not UTF-8: {exc}", first_line + i) from exc
    roles = {}
    for parameter, spellings in (
        ("start", ("<s>",)),
        ("end", ("</s>",)),
        ("unknown", ("<unk>", "<UNK>")),
    ):
        for spelling in spellings:
            if spelling in symbols:
                roles[parameter] = symbols.index(spelling)
                break
    for parameter, i in roles.items():
        symbols[i] = names[parameter]
    if len(set(symbols)) < len(symbols):
        for parameter, i in roles.items():
            if symbols.count(symbols[i]) > 1:
                raise ValueError(
                    f"{parameter}={names[parameter]!r} is also another word of "
                    f"{source.name}."
                )
    return symbols, roles


def _assemble(cls, source, symbols, roles, sections, names, drop_zero_unknown):
    """Sections of n-grams -> BackoffModel."""
    order = len(sections)
    n_words = len(symbols)
    used = np.ones(n_words, dtype=bool)
    is_class = np.ones(n_words, dtype=bool)
    is_context = np.ones(n_words, dtype=bool)
    if "start" in roles:
        is_class[roles["start"]] = False
    if "end" in roles:
        mark = roles["end"]
        is_context[mark] = any((s[0][:, :-1] == mark).any() for s in sections[1:])
    if "unknown" in roles and drop_zero_unknown:
        mark = roles["unknown"]
        if sections[0][1][mark, 0] <= -98 and not any(
            (s[0] == mark).any() for s in sections[1:]
        ):
            used[mark] = False
            del roles["unknown"]
    rank = np.empty(n_words, dtype=np.int64)
    in_order = np.array(sorted(range(n_words), key=symbols.__getitem__))
    rank[in_order] = np.arange(n_words)

    def number(chosen):
        ids = np.full(n_words, -1, dtype=np.int32)
        members = in_order[chosen[in_order]]
        ids[members] = np.arange(len(members), dtype=np.int32)
        labels = np.empty(len(members), dtype=object)
        labels[:] = [symbols[i] for i in members]
        return ids, labels

    class_of_word, classes = number(is_class & used)
    symbol_of_word, context_symbols = number(is_context & used)
    if len(classes) == 0:
        raise source.fail("the file has no unigram besides <s>.", sections[0][2])

    # Contexts: those that some n-gram continues, then those with a back-off weight.
    builder = _TreeBuilder()
    pair_node, histories = [], []
    for k, (ids, _, _) in enumerate(sections, 1):
        rows = symbol_of_word[ids]
        histories.append(rows)
        pair_node.append(builder.nodes(rows, k - 1, True))
    own_node = [
        builder.nodes(rows, k, (values[:, 1] != 0) & (rows >= 0).all(axis=1))
        if k < order
        else np.full(len(rows), -1, dtype=np.int32)
        for k, (rows, (_, values, _)) in enumerate(zip(histories, sections), 1)
    ]
    del histories
    # Rows with </s>, whose symbol is -1, are no contexts: no back-off weight is kept.
    tree, final = builder.finish()
    parent, symbol, level_ptr, child_ptr = tree

    log_backoff = np.zeros(len(parent))
    nodes, targets, log_probs = [], [], []
    n_classes = len(classes)
    for k, (ids, values, first) in enumerate(sections, 1):
        known = own_node[k - 1] >= 0
        log_backoff[final[own_node[k - 1][known]]] = values[known, 1] * _LN10
        cls_id = class_of_word[ids[:, -1]]
        node = final[pair_node[k - 1]]
        _check_duplicates(source, symbols, ids, node, cls_id, first, n_classes)
        keep = cls_id >= 0
        node, cls_id, lp = node[keep], cls_id[keep], values[keep, 0] * _LN10
        key = node.astype(np.int64) * n_classes + cls_id
        if len(key) and (key[1:] <= key[:-1]).any():
            by_key = np.argsort(key)
            node, cls_id, lp = node[by_key], cls_id[by_key], lp[by_key]
        nodes.append(node)
        targets.append(cls_id)
        log_probs.append(lp)
    # Order k has the nodes of depth k - 1, and deeper nodes have larger numbers.
    pair_ptr = _pointers(np.concatenate(nodes), len(parent))
    return cls(
        parent,
        symbol,
        level_ptr,
        child_ptr,
        pair_ptr,
        np.concatenate(targets),
        np.concatenate(log_probs),
        log_backoff,
        classes=classes,
        symbols=context_symbols,
        **{p: names[p] if p in roles else None for p in names},
    )


def _check_duplicates(source, symbols, ids, node, cls_id, first, n_classes):
    if ids.shape[1] == 1:
        return  # the table of words has seen to it
    # -1 (the start mark as last word) gets a key of its own.
    key = node.astype(np.int64) * (n_classes + 1) + (cls_id + 1)
    if len(key) < 2 or (key[1:] > key[:-1]).all():
        return
    by_key = np.argsort(key, kind="stable")
    same = np.flatnonzero(key[by_key][1:] == key[by_key][:-1])
    if same.size:
        again = int(by_key[same + 1].min())
        text = " ".join(symbols[w] for w in ids[again])
        raise source.fail(
            f"the {ids.shape[1]}-gram {text!r} occurs twice.", first + again
        )


# ------------------------------------------------------------------ writing


def write_arpa(model, path_or_file, *, start, end, unknown, precision):
    if (
        isinstance(precision, bool)
        or not isinstance(precision, (int, np.integer))
        or not 1 <= precision <= 15
    ):
        raise ValueError(f"precision must be an integer in 1..15, got {precision!r}.")
    if model.symbols_ is None and model.n_nodes > 1:
        raise ValueError(
            "the context symbols are not known (symbols=None), so the model cannot be "
            "written as an ARPA file; give symbols to BackoffModel."
        )
    if (model.log_backoff > 900 * _LN10).any():
        raise ValueError("log_backoff holds a weight above 10^900.")
    words = _Words(model, start, end, unknown)
    model = _closed(model, words)
    with _open_write(path_or_file) as file:
        _write(model, words, file, int(precision))


class _Words:
    """Every word of the file: text and offsets, and the word of each id."""

    def __init__(self, model, start, end, unknown):
        classes = model.classes_.tolist()
        symbols = [] if model.symbols_ is None else model.symbols_.tolist()
        labels = list(dict.fromkeys([*classes, *symbols]))
        index = {label: i for i, label in enumerate(labels)}
        spelt = [_spell(label) for label in labels]
        written = {text: i for i, text in enumerate(spelt)}
        self.special = {}
        for parameter, given, own, text in (
            ("start", start, model.start_, "<s>"),
            ("end", end, model.end_, "</s>"),
            ("unknown", unknown, model.unknown_, "<unk>"),
        ):
            label = own if given is None else given
            if label is None:
                i = written.get(text)
            elif label in index:
                i = index[label]
            elif given is None:
                i = None
            else:
                raise ValueError(
                    f"{parameter}={given!r} is neither a class nor a context symbol of "
                    "the model."
                )
            if i is None:
                i = len(spelt)
                spelt.append(text)
                labels.append(text)
            spelt[i] = text
            self.special[parameter] = i
        if len(set(self.special.values())) < 3:
            raise ValueError("start, end and unknown must be different symbols.")
        n_classes = len(classes)
        if self.special["start"] < n_classes:
            raise ValueError(
                f"start={labels[self.special['start']]!r} is a class of the model, but "
                "<s> is never predicted in an ARPA file; name another start symbol."
            )
        seen = {}
        for i, text in enumerate(spelt):
            if seen.setdefault(text, i) != i:
                raise ValueError(
                    f"symbols {labels[seen[text]]!r} and {labels[i]!r} are both "
                    f"written as {text!r}."
                )
        encoded = []
        for label, text in zip(labels, spelt):
            try:
                encoded.append(text.encode("utf-8"))
            except UnicodeEncodeError as exc:
                raise ValueError(
                    f"symbol {label!r} cannot be encoded as UTF-8."
                ) from exc
        self.text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        lengths = np.array([len(word) for word in encoded], dtype=np.int64)
        self.ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.longest = int(lengths.max())
        self.n_words = len(encoded)
        # labels start with the classes, so that a class id is its word's number.
        self.of_symbol = np.array([index[s] for s in symbols], dtype=np.int32)
        self.n_classes = n_classes


def _spell(label):
    if isinstance(label, bytes):
        try:
            text = label.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ValueError(f"symbol {label!r} is not UTF-8.") from exc
    else:
        text = str(label)
    if not text or _SEPARATORS.search(text):
        what = "it is empty" if not text else "it contains white space"
        raise ValueError(f"symbol {label!r} cannot be written to an ARPA file: {what}.")
    return text


def _newest(model):
    """Most recent symbol of each node (-1 for the root)."""
    newest = model.symbol.copy()
    for k in range(2, model.max_depth + 1):
        level = slice(int(model.level_ptr[k]), int(model.level_ptr[k + 1]))
        newest[level] = newest[model.parent[level]]
    return newest


def _drop_newest(model):
    out = np.empty(model.n_nodes, dtype=np.int32)
    first = int(model.level_ptr[min(2, model.max_depth + 1)])
    _arpa_fast.drop_newest(model.symbol, model.child_ptr, model.parent, first, out)
    return out


def _contexts(model, nodes, depth):
    """(len(nodes), depth) symbols of nodes of one depth, the most recent last."""
    rows = np.empty((len(nodes), depth), dtype=np.int32)
    for j in range(depth):
        rows[:, j] = model.symbol[nodes]
        nodes = model.parent[nodes]
    return rows


def _find_pairs(model, nodes, targets):
    out = np.empty(len(nodes), dtype=np.int32)
    _backoff_fast.find_pairs(model.pair_ptr, model.target, nodes, targets, out)
    return out


def _closed(model, words):
    """The same model with the context and the suffix of every n-gram in it.

    Additional nodes have a back-off weight of 1 and no pairs, additional pairs the
    probability that backing off gives: no query changes. Models estimated from
    sentences lack nothing, and then the cost is a look-up per pair and node.
    """
    model = _with_dropped_nodes(model)
    if model.max_depth == 0:
        return model
    node_of_pair = np.repeat(
        np.arange(model.n_nodes, dtype=np.int32), np.diff(model.pair_ptr)
    )
    # Nodes "h w" need the pair (h, w), if w is a class.
    class_of_symbol = np.where(
        words.of_symbol < words.n_classes, words.of_symbol, -1
    ).astype(np.int32)
    deep = slice(int(model.level_ptr[1]), model.n_nodes)
    last = class_of_symbol[_newest(model)[deep]]
    history = _drop_newest(model)[deep]
    chosen = last >= 0
    below = slice(model.n_classes, model.n_pairs)
    nodes = np.concatenate([history[chosen], model.parent[node_of_pair[below]]])
    targets = np.concatenate([last[chosen], model.target[below]])
    added = []
    while len(nodes):
        missing = _find_pairs(model, nodes, targets) < 0
        key = np.unique(
            nodes[missing].astype(np.int64) * model.n_classes + targets[missing]
        )
        added.append(key)
        nodes = model.parent[key // model.n_classes]
        targets = (key % model.n_classes).astype(np.int32)
    key = np.unique(np.concatenate(added))
    if not len(key):
        return model
    nodes = (key // model.n_classes).astype(np.int32)
    targets = (key % model.n_classes).astype(np.int32)
    log_prob = model.log_proba(nodes, targets)
    old_key = node_of_pair.astype(np.int64) * model.n_classes + model.target
    at = np.searchsorted(old_key, key)
    node_of_pair = np.insert(node_of_pair, at, nodes)
    return _rebuild(
        model,
        (model.parent, model.symbol, model.level_ptr, model.child_ptr),
        _pointers(node_of_pair, model.n_nodes),
        np.insert(model.target, at, targets),
        np.insert(model.log_prob, at, log_prob),
        model.log_backoff,
    )


def _with_dropped_nodes(model):
    missing = np.flatnonzero(_drop_newest(model) < 0)
    if not missing.size:
        return model
    builder = _TreeBuilder()
    new_id = np.zeros(model.n_nodes, dtype=np.int32)
    for k in range(1, model.max_depth + 1):
        level = np.arange(model.level_ptr[k], model.level_ptr[k + 1])
        new_id[level] = builder.nodes(_contexts(model, level, k), k, True)
    depth = model.depth(missing)
    for k in range(2, model.max_depth + 1):
        rows = _contexts(model, missing[depth == k], k)
        # All prefixes; the builder adds their suffixes itself.
        for width in range(k - 1, 0, -1):
            builder.nodes(rows, width, True)
    tree, final = builder.finish()
    new_id = final[new_id]
    n_nodes = len(tree[0])
    log_backoff = np.zeros(n_nodes)
    log_backoff[new_id] = model.log_backoff
    # New numbers keep the order of the old nodes, so the pairs stay sorted.
    nodes = np.repeat(new_id, np.diff(model.pair_ptr))
    return _rebuild(
        model,
        tree,
        _pointers(nodes, n_nodes),
        model.target,
        model.log_prob,
        log_backoff,
    )


def _rebuild(model, tree, pair_ptr, target, log_prob, log_backoff):
    return type(model)(
        *tree,
        pair_ptr,
        target,
        log_prob,
        log_backoff,
        classes=model.classes_,
        symbols=model.symbols_,
        start=model.start_,
        end=model.end_,
        unknown=model.unknown_,
    )


def _write(model, words, file, precision):
    # Line items per order: pairs, and n-grams whose last word is never predicted.
    word_of_node = np.full(model.n_nodes, -1, dtype=np.int32)
    word_of_newest = np.full(model.n_nodes, -1, dtype=np.int32)
    extension = np.full(model.n_pairs, -1, dtype=np.int32)
    drop = _drop_newest(model)
    if model.max_depth:
        word_of_node[1:] = words.of_symbol[model.symbol[1:]]
        word_of_newest[1:] = words.of_symbol[_newest(model)[1:]]
        predicted = np.flatnonzero(
            (word_of_newest >= 0) & (word_of_newest < words.n_classes)
        ).astype(np.int32)
        extension[_find_pairs(model, drop[predicted], word_of_newest[predicted])] = (
            predicted
        )
    backoff10 = np.clip(model.log_backoff / _LN10, _ZERO, None)
    # What would be written as 0 is left out, which means the same.
    backoff10[np.abs(backoff10) < 0.5 * 10.0**-precision] = np.nan
    never = np.flatnonzero(word_of_newest >= words.n_classes)

    sections = []
    for depth in range(model.max_depth + 1):
        span = slice(int(model.level_ptr[depth]), int(model.level_ptr[depth + 1]))
        pairs = slice(int(model.pair_ptr[span.start]), int(model.pair_ptr[span.stop]))
        nodes = np.repeat(
            np.arange(span.start, span.stop, dtype=np.int32),
            np.diff(model.pair_ptr[span.start : span.stop + 1]),
        )
        ext = extension[pairs]
        values = np.clip(model.log_prob[pairs] / _LN10, _ZERO, 0.0)
        items = [(nodes, model.target[pairs], values, _at(backoff10, ext))]
        extra = never[model.depth(never) == depth + 1].astype(np.int32)
        items.append(_zeros(drop[extra], word_of_newest[extra], backoff10[extra]))
        if depth == 0:
            listed = set(word_of_newest[extra].tolist())
            listed.update(range(words.n_classes))
            specials = [w for w in words.special.values() if w not in listed]
            items.append(
                _zeros(
                    np.zeros(len(specials)), specials, np.full(len(specials), np.nan)
                )
            )
        sections.append(items)
    # Contexts of the greatest depth without pairs still need their own section; and
    # KenLM does not load a file of unigrams only.
    if len(sections) == 1:
        sections.append([])

    counts = [sum(len(item[0]) for item in items) for items in sections]
    header = ["\\data\\", *(f"ngram {k}={c}" for k, c in enumerate(counts, 1)), "", ""]
    file.write("\n".join(header).encode())
    buffer = np.empty(
        max(1 << 20, 2 * _longest_line(words, model, precision)), dtype=np.uint8
    )
    for order, items in enumerate(sections, 1):
        file.write(f"\\{order}-grams:\n".encode())
        for nodes, last, values, backoffs in items:
            row = 0
            while row < len(nodes):
                row, size = _arpa_fast.format_block(
                    words.text,
                    words.ptr,
                    model.parent,
                    word_of_node,
                    nodes,
                    last,
                    values,
                    backoffs,
                    precision,
                    _longest_line(words, model, precision),
                    row,
                    buffer,
                )
                file.write(buffer[:size].tobytes())
        file.write(b"\n")
    file.write(b"\\end\\\n")


def _longest_line(words, model, precision):
    return (words.longest + 1) * (model.max_depth + 2) + 2 * (precision + 8) + 2


def _at(values, index):
    """values[index], NaN where the index is -1."""
    out = np.full(len(index), np.nan)
    known = index >= 0
    out[known] = values[index[known]]
    return out


def _zeros(nodes, last, backoffs):
    nodes = np.asarray(nodes, dtype=np.int32)
    return (
        nodes,
        np.asarray(last, dtype=np.int32),
        np.full(len(nodes), _ZERO),
        np.asarray(backoffs, dtype=np.float64),
    )


@contextmanager
def _open_write(path_or_file):
    if hasattr(path_or_file, "write"):
        yield path_or_file
    elif isinstance(path_or_file, (str, os.PathLike)):
        path = os.fspath(path_or_file)
        if path.endswith(".gz"):
            # mtime=0, no file name: the same model gives the same bytes.
            with (
                open(path, "wb") as raw,
                gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as file,
            ):
                yield file
        else:
            with open(path, "wb") as file:
                yield file
    else:
        raise ValueError(
            f"path_or_file must be a path or a binary file, got {path_or_file!r}."
        )
