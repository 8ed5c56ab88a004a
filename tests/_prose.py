"""The prose of a file: comments, docstrings, messages; phrases that are not plain."""

import io
import re
import tokenize
from itertools import chain

_UNIT = (
    r"nats?|bits?|bytes?|(?:milli|micro)?seconds?|digits?|samples|tokens|words|floats|"
    r"numbers|labels|features|calls|rows|times"
)
_ITEM = (
    "sample|token|word|node|class|pair|lane|depth|symbol|context|character|entry|row|"
    "column|edge|line|feature|group|sentence|position|step|pass|model|tree|file|level|"
    "call|second|pair|process|iteration|run|result|platform"
)
_AFTER_OWN = (
    "and|or|as|in|to|with|for|is|are|has|have|unless|by|if|while|at|on|so|that|which|"
    "from|before|after|when"
)
_COMPARED = (
    "longer|more|less|fewer|worse|better|larger|greater|smaller|faster|slower|higher|"
    "lower"
)
# (pattern, plain form); a run of white space is one blank.
PHRASES = [
    (
        rf"(?<!\bthere )\b(?:is|are|was|were|be|being) no (?!(?:{_COMPARED})\b)(?=\w)",
        '"is not a X" or "has no X" for "is no X"',
    ),
    (
        rf"\bof (?:its|their) own\b(?=[.,;:)]| (?:{_AFTER_OWN})\b|$)",
        '"its own X" for "X of its own"',
    ),
    (
        r"\b(?:has|have|had|having|is|are|was|were) (?-i:none)\b(?! of\b)",
        'say what is absent for "there is none"',
    ),
    (r"\bnobody\b", 'say who for "nobody"'),
    (
        r"(?-i:(?:^|(?<=[.;!?] ))(?:Wh(?:at|ere|o)(?:ever)?|Which|Whose)\b)"
        r"(?=[^?.]*(?:[.,;:]|$))",
        "begin with the subject of the sentence",
    ),
    (rf"\b(?:{_UNIT}) an? (?:{_ITEM})\b", '"per X" for "a X"'),
    (
        rf"\b(?:one|once|an?) (?:(?!of|for|with|in)[a-z]+ )?an? (?:{_ITEM})\b"
        r"(?! (?:is|was|has)\b)",
        '"one per X" for "one a X"',
    ),
]
PHRASES = [(re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in PHRASES]
# Names that say less than a term of the field.
NAMES = {
    "BREATH": "OPS_BETWEEN_SIGNAL_CHECKS",
    "Begun": "PausedDescents",
    "Division": "SplitFeatures",
    "Reading": "TransformCache",
    "Unread": "LazyTransform",
    "_Given": "_PeekableReader",
    "_Unpacked": "_Decompressed",
    "_Whole": "FullWriter",
    "_is_free": "_auto_shape_allowed",
    "_is_plain": "_any_node_model_allowed",
    "_is_users": "_third_party_nodes",
    "_melted": "_unwrap_frozen",
    "_through": "_codec",
    "bend": "update_inverse",
    "go_on": "set_state",
    "in_ids": "with_ids",
    "pass_on": "subtree_residual",
    "refusal_of_labels": "a private name",
    "renew_metric": "update_metric",
    "turn": "what it changes",
    "undivided": "all_counts",
}
_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
# Strings of Python, with their prefixes, and comments: a string may hold a number sign.
_TEXT = re.compile(
    r'([a-zA-Z]*)("""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|'
    r"'''(?:[^\\]|\\.)*?'''|'(?:[^'\\\n]|\\.)*')|(#[^\n]*)",
    re.DOTALL,
)
_PLACE = re.compile(r"\{[^{}]+(?:\{[^{}]*\}[^{}]*)*\}")  # of a value in an f-string
# Lines that begin a new sentence: examples, items of lists, fields, rows of tables.
_BREAK = re.compile(r"\s*(>>> |\.\.\. |[-*|:] |\.\. |\d+\. |[-=~^]{3,}$)")
_TITLE = re.compile(r"\s*([-=~^])\1{2,}$")  # the line below a title
_FIELD = re.compile(r"\s*[\w*, ]+ : ")  # of a section of a docstring


def _texts(text):
    """(line, match of `_TEXT`) of Python's strings and comments."""
    number, at = 1, 0
    for found in _TEXT.finditer(text):
        number += text.count("\n", at, found.start())
        at = found.start()
        yield number, found


def _is_alone(text, found):
    """Whether nothing but blanks is before a match on its line."""
    return not text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()


def comments(text):
    """(line, whether nothing is before it, comment) of Python."""
    for number, found in _texts(text):
        if found[3] is not None:
            yield number, _is_alone(text, found), found[3]


def python_prose(text):
    """Lists of (line, text) of the strings and comments of Python.

    Strings that follow each other are one string. Values of an f-string are X.
    """
    block, last = [], 0
    joined, end = [], 0
    for number, found in _texts(text):
        prefix, string, comment = found.groups()
        if text[end : found.start()].strip("\\ \n"):
            yield joined
            joined = []
        end = found.end()
        if comment is not None:
            if number != last + 1 or not _is_alone(text, found):
                yield block
                block = []
            block.append((number, comment.lstrip("#")))
            last = number
        elif "b" not in prefix.lower():
            quotes = 3 if string[:3] in ('"""', "'''") else 1
            string = string[quotes:-quotes]
            if "f" in prefix.lower():
                string = _PLACE.sub("X", string)
            if "r" not in prefix.lower():
                string = string.replace("\\n", "\n")
            lines = [(number + i, line) for i, line in enumerate(string.split("\n"))]
            if joined:
                line, before = joined.pop()
                lines[0] = line, before + lines[0][1]
            joined += lines
    yield joined
    yield block


def kernel_prose(text):
    """The same of Cython and C: comments, docstrings and strings."""
    block, quoted = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if quoted or '"""' in line:
            block.append((number, line.replace('"""', "")))
            quoted ^= line.count('"""') % 2 == 1
        elif found := re.match(r"\s*(?:#+ |//|/?\*)(.*)", line):
            block.append((number, found[1]))
        else:
            yield block
            block = []
            yield [
                (number, found) for found in re.findall(r'(?<=  # ).*|"[^"]+"', line)
            ]
    yield block


def names_of_tests(text):
    """The same of the names of tests, as sentences."""
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.match(r"\s*def test_(\w+)", line):
            yield [(number, found[1].replace("_", " ").capitalize())]


def page_prose(text):
    """The same of a page: its paragraphs without titles and blocks of code."""
    block, fenced = [], False
    lines = text.split("\n")
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        fenced ^= line.startswith("```")
        title = line.startswith("#") or re.fullmatch(r"([-=~^\"'])\1{2,}", following)
        if fenced or title:
            yield block
            block = []
        else:
            block.append((number, line))
    yield block


def _sentences(block):
    """(line of each character, text) of parts between blank lines and `_BREAK`."""
    at, text = [], ""
    for number, line in [*block, (0, "")]:
        field = _FIELD.match(line)
        if not line.strip() or field or _BREAK.match(line):
            if text and not _TITLE.match(line):
                yield at, text.rstrip()
            at, text = [], ""
            line = re.sub(r"^\s*([-*|]\s+)+", "", line)
            if field or re.match(r"\s*(>>> |\.\.\. |\.\. |:)", line):
                continue
        words = " ".join(line.split())
        if words:
            text += words + " "
            at += [number] * (len(words) + 1)


def hits(path):
    """(line, what is wrong) of a file."""
    text = path.read_text(encoding="utf-8")
    page = path.suffix in (".rst", ".md")
    code = path.suffix == ".py"
    prose = page_prose if page else python_prose if code else kernel_prose
    for block in chain(prose(text), names_of_tests(text) if code else ()):
        for at, sentence in _sentences(block):
            for pattern, plain in PHRASES:
                for found in pattern.finditer(sentence):
                    near = sentence[max(0, found.start() - 20) : found.end() + 20]
                    yield at[found.start()], f"{plain}: ...{near.strip()}..."
    if code and _NAME.search(text):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and token.string in NAMES:
                what = f"name `{token.string}` {NAMES[token.string]}"
                yield token.start[0], what
    elif not page and not code:
        blank = re.sub(r'"""[\s\S]*?"""', lambda m: "\n" * m[0].count("\n"), text)
        for number, line in enumerate(blank.split("\n"), 1):
            for found in _NAME.finditer(re.sub(r"#.*|//.*|^[^=(]*$", "", line)):
                yield number, f"name `{found[0]}` {NAMES[found[0]]}"
