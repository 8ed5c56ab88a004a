"""Settings of fastText on the validation parts of the sets of bench_text_classes.

Each setting learns the training part and is measured on the validation part. The
program bench_text_classes takes the best setting of each set from the results of this
program, in docs/benchmarks/results.
"""

from __future__ import annotations

from _common import main
from bench_text_classes import (
    fasttext_figures,
    parts_of,
    probabilities_of,
    threshold_of,
    train_fasttext,
)

LANGUAGES = (
    "minn=1 maxn=4 dim=64 lr=.5 epoch=50",
    "minn=1 maxn=5 dim=64 lr=.2 epoch=50",
    "minn=1 maxn=5 dim=64 lr=.5 epoch=25",
    "minn=1 maxn=5 dim=64 lr=.5 epoch=50",
)
TOPICS = (
    "wordNgrams=2 dim=32 lr=.2 epoch=15",
    "minn=2 maxn=5 wordNgrams=2 dim=32 lr=.2 epoch=15",
    "minn=3 maxn=6 dim=32 lr=.2 epoch=15",
    "minn=3 maxn=6 wordNgrams=2 dim=16 lr=.2 epoch=25",
    "minn=3 maxn=6 wordNgrams=2 dim=32 lr=.1 epoch=25",
    "minn=3 maxn=6 wordNgrams=2 dim=32 lr=.2 epoch=15",
    "minn=3 maxn=6 wordNgrams=2 dim=32 lr=.2 epoch=25",
    "minn=3 maxn=6 wordNgrams=2 dim=32 lr=.5 epoch=15",
    "minn=3 maxn=6 wordNgrams=3 dim=32 lr=.2 epoch=15",
    "minn=3 maxn=6 wordNgrams=3 dim=32 lr=.2 epoch=25",
)
FEW_TEXTS = tuple(
    f"{ngrams}dim=16 lr={lr} epoch={epoch}"
    for ngrams in (
        "",
        "wordNgrams=2 ",
        "minn=2 maxn=5 bucket=200000 ",
        "minn=3 maxn=6 bucket=200000 ",
    )
    for lr in (".2", ".5", "1")
    for epoch in (25, 50, 100)
)
TRIED = {
    "udhr20": (*LANGUAGES, "minn=1 maxn=5 dim=64 lr=1 epoch=100"),
    "udhr40": (*LANGUAGES, "minn=1 maxn=5 dim=100 lr=1 epoch=100"),
    "udhr100": (
        *LANGUAGES,
        "minn=1 maxn=5 dim=100 lr=1 epoch=50",
        "minn=1 maxn=5 dim=100 lr=1 epoch=100",
    ),
    "clinc150": (
        "minn=2 maxn=5 wordNgrams=2 dim=100 lr=.5 epoch=50",
        "minn=3 maxn=6 wordNgrams=2 dim=50 lr=.2 epoch=25",
        "minn=3 maxn=6 wordNgrams=2 dim=100 lr=.2 epoch=50",
        "minn=3 maxn=6 wordNgrams=2 dim=100 lr=.5 epoch=25",
        "minn=3 maxn=6 wordNgrams=2 dim=100 lr=.5 epoch=50",
        "minn=3 maxn=6 wordNgrams=3 dim=100 lr=.5 epoch=100",
    ),
    "sections": TOPICS,
    "tags": tuple(f"loss=ova {setting}" for setting in TOPICS),
    "clinc150/1500": FEW_TEXTS,
    "sections/2000": FEW_TEXTS,
}


def cases():
    return [
        {"set": name, "setting": setting, "needs": "fasttext"}
        for name, settings in TRIED.items()
        for setting in settings
    ]


def run(case):
    train, valid, _ = parts_of(case["set"])
    model, fit, _ = train_fasttext(case["setting"], *train)
    names, proba = probabilities_of(model, valid[0])
    figures = {"n_train": len(train[0]), "n_valid": len(valid[0]), "fit": fit}
    tags = case["set"] == "tags"
    threshold = threshold_of(names, proba, valid[1]) if tags else None
    return figures | fasttext_figures(names, proba, valid[1], threshold)


if __name__ == "__main__":
    main(cases, run, peers=("fasttext",))
