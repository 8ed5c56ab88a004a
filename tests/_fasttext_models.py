"""Small models of fastText: the bytes of their files, and their answers by definition.

The files have random matrices and are written here, so that they need no library. The
answers are computed in double precision, in the plainest way.
"""

import struct
from dataclasses import dataclass, field

import numpy as np

LOSSES = {"hs": 1, "ns": 2, "softmax": 3, "ova": 4}
KINDS = {"cbow": 1, "skipgram": 2, "supervised": 3}
WORDS = ["</s>", "card", "the", "password", "läßt", "中文", "a", "lost"]
LABELS = ["__label__login", "__label__card", "__label__other", "__label__ö"]


@dataclass
class Matrix:
    """float32 values, or codes: `part` columns of a row are one of 256 centroids."""

    values: np.ndarray
    codes: np.ndarray | None = None
    centroids: list = field(default_factory=list)
    factor_codes: np.ndarray | None = None
    factors: np.ndarray | None = None
    part: int = 0

    @classmethod
    def of_codes(cls, rng, n_rows, n, part, scaled):
        widths = [part] * (n // part) + ([n % part] if n % part else [])
        codes = rng.integers(0, 256, (n_rows, len(widths)), dtype=np.uint8)
        centroids = [rng.normal(size=(256, w)).astype(np.float32) for w in widths]
        values = np.hstack([c[codes[:, m]] for m, c in enumerate(centroids)])
        new = cls(values, codes, centroids, part=part)
        if scaled:
            new.factor_codes = rng.integers(0, 256, n_rows, dtype=np.uint8)
            new.factors = rng.uniform(0.5, 2, 256).astype(np.float32)
            new.values = values * new.factors[new.factor_codes, None]
        return new

    def to_bytes(self):
        m, n = self.values.shape
        if self.codes is None:
            return struct.pack("<2q", m, n) + self.values.astype("<f4").tobytes()
        scaled = self.factors is not None
        out = struct.pack("<B2qi", scaled, m, n, self.codes.size) + self.codes.tobytes()
        last = self.centroids[-1].shape[1]
        out += struct.pack("<4i", n, len(self.centroids), self.part, last)
        out += b"".join(c.astype("<f4").tobytes() for c in self.centroids)
        if scaled:
            out += self.factor_codes.tobytes() + struct.pack("<4i", 1, 1, 1, 1)
            out += self.factors.astype("<f4").tobytes()
        return out


@dataclass
class Model:
    loss: str = "softmax"
    kind: str = "supervised"
    dim: int = 5
    minn: int = 0
    maxn: int = 0
    word_ngrams: int = 1
    bucket: int = 0
    part: int = 0  # 0: float32
    scaled: bool = False
    output_codes: bool = False
    pruned: bool = False
    version: int = 12
    seed: int = 0
    words: list = field(default_factory=lambda: list(WORDS))
    labels: list = field(default_factory=lambda: list(LABELS))

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.counts = np.sort(rng.integers(1, 50, len(self.words)))[::-1]
        self.label_counts = np.sort(rng.integers(1, 50, len(self.labels)))[::-1]
        self.pairs = None
        n_rows = len(self.words) + self.bucket
        if self.pruned:
            kept = rng.permutation(self.bucket)[: self.bucket // 2]
            self.pairs = {int(b): row for row, b in enumerate(kept)}
            n_rows = len(self.words) + len(kept)
        targets = self.labels if self.kind == "supervised" else self.words
        self.input = self._matrix(rng, n_rows, self.part > 0)
        self.output = self._matrix(rng, len(targets), self.output_codes)

    def _matrix(self, rng, n_rows, codes):
        if codes:
            return Matrix.of_codes(rng, n_rows, self.dim, self.part, self.scaled)
        return Matrix(rng.normal(size=(n_rows, self.dim)).astype(np.float32))

    def to_bytes(self):
        out = struct.pack("<2i", 793712314, self.version)
        out += struct.pack(
            "<12id", self.dim, 5, 5, 1, 5, self.word_ngrams, LOSSES[self.loss],
            KINDS[self.kind], self.bucket, self.minn, self.maxn, 100, 1e-4,
        )  # fmt: skip
        n, k = len(self.words), len(self.labels)
        n_pairs = -1 if self.pairs is None else len(self.pairs)
        out += struct.pack("<3i2q", n + k, n, k, 1000, n_pairs)
        entries = [(w, c, 0) for w, c in zip(self.words, self.counts)]
        entries += [(w, c, 1) for w, c in zip(self.labels, self.label_counts)]
        for word, count, kind in entries:
            out += word.encode() + b"\0" + struct.pack("<qb", count, kind)
        for pair in (self.pairs or {}).items():
            out += struct.pack("<2i", *pair)
        out += struct.pack("<B", self.part > 0) + self.input.to_bytes()
        return out + struct.pack("<B", self.output_codes) + self.output.to_bytes()

    def write(self, path):
        path.write_bytes(self.to_bytes())
        return str(path)

    # ------------------------------------------------------------- by definition

    def bucket_row(self, bucket):
        if self.pairs is not None:
            if bucket not in self.pairs:
                return []
            bucket = self.pairs[bucket]
        return [len(self.words) + bucket]

    def rows_of_word(self, word):
        rows = [self.words.index(word)] if word in self.words else []
        if word == "</s>" or self.longest == 0:
            return rows
        padded = f"<{word}>"
        for i in range(len(padded)):
            for n in range(1, self.longest + 1):
                part = padded[i : i + n]
                inside = 0 < i and i + n < len(padded)
                if len(part) == n >= self.minn and (n > 1 or inside):
                    rows += self.bucket_row(fnv(part) % self.bucket)
        return rows

    @property
    def longest(self):
        old = self.version == 11 and self.kind == "supervised"
        return 0 if old else self.maxn

    def rows_of_line(self, line):
        rows, hashes = [], []
        for blank in "\n\r\t\v\f\0":
            line = line.replace(blank, " ")
        for word in [*(w for w in line.split(" ") if w), "</s>"]:
            if word in self.labels:
                continue
            if word.startswith("__label__") and word not in self.words:
                continue
            rows += self.rows_of_word(word)
            hashes.append(fnv(word) - (fnv(word) >> 31 << 32))
            if word == "</s>":
                break
        for i in range(len(hashes)):
            h = hashes[i]
            for following in hashes[i + 1 : i + self.word_ngrams]:
                h = h * 116049371 + following
                rows += self.bucket_row(h % 2**64 % self.bucket)
        return rows

    def vector(self, rows):
        values = self.input.values.astype(float)
        return values[rows].mean(axis=0) if rows else np.zeros(self.dim)

    def probabilities(self, line):
        """The reported probability of each label; None without a feature."""
        rows = self.rows_of_line(line)
        if not rows:
            return None
        scores = self.output.values.astype(float) @ self.vector(rows)
        if self.loss == "softmax":
            p = np.exp(scores - scores.max())
            return p / p.sum() + 1e-5
        if self.loss in ("ns", "ova"):
            steps = np.floor((np.clip(scores, -8, 8) + 8) * 32) / 32 - 8
            p = 1 / (1 + np.exp(-steps))
            return np.where(scores < -8, 0, np.where(scores > 8, 1, p)) + 1e-5
        # A Huffman tree: two queues, the labels from the rarest and the joined nodes.
        leaves = list(range(len(self.labels)))
        count = dict(enumerate(self.label_counts.tolist()))
        joined, paths = [], {leaf: [] for leaf in leaves}
        under = {leaf: [leaf] for leaf in leaves}
        for node in range(len(self.labels) - 1):
            chosen = []
            for _ in range(2):
                of_leaf = leaves and (
                    not joined or count[leaves[-1]] < count[joined[0]]
                )
                chosen.append(leaves.pop() if of_leaf else joined.pop(0))
            name = len(self.labels) + node
            count[name] = count[chosen[0]] + count[chosen[1]]
            under[name] = under[chosen[0]] + under[chosen[1]]
            for side, child in enumerate(chosen):
                for leaf in under[child]:
                    paths[leaf].append((node, side))
            joined.append(name)
        p = 1 / (1 + np.exp(-scores))
        return np.array(
            [
                np.prod(
                    [(p[v] if side else 1 - p[v]) + 1e-5 for v, side in paths[leaf]]
                )
                for leaf in range(len(self.labels))
            ]
        )


def fnv(text):
    """FNV-1a of signed bytes."""
    h = 2166136261
    for byte in text.encode():
        h = ((h ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) % 2**32
    return h


MODELS = {
    "words": Model(),
    "word pairs": Model(word_ngrams=2, bucket=30),
    "tree": Model("hs", minn=2, maxn=4, word_ngrams=3, bucket=40, dim=16),
    "tree of one": Model("hs", labels=["__label__x"]),
    "negatives": Model("ns", minn=1, maxn=3, bucket=20, dim=33),
    "one-vs-all": Model("ova", minn=3, maxn=6, bucket=50, dim=2),
    # more labels than stand side by side in a block of rows
    "37 labels": Model("ova", labels=[f"__label__{i}" for i in range(37)], dim=5),
    "version 11": Model(minn=2, maxn=3, bucket=10, version=11),
    "codes": Model(part=2, dim=5, minn=1, maxn=2, bucket=30),
    "with factors": Model("ns", part=3, dim=6, scaled=True, word_ngrams=2, bucket=9),
    "pruned": Model(part=2, dim=4, minn=2, maxn=3, bucket=60, pruned=True),
    "pruned to words": Model(part=2, dim=4, minn=2, maxn=3, bucket=1, pruned=True),
    "all codes": Model(
        "hs", part=4, dim=6, minn=1, maxn=3, bucket=40, scaled=True, output_codes=True,
        pruned=True,
    ),
    "vectors": Model("ns", "skipgram", minn=2, maxn=4, bucket=30, labels=[]),
    "vectors of words": Model("hs", "cbow", labels=[]),
}  # fmt: skip
