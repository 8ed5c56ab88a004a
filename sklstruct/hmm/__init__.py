"""Hidden Markov models of any order: exact decoding, marginals and samples."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._channels import EditDistanceChannel, KeypadChannel
    from ._decoder import NoisyChannelDecoder
    from ._emissions import ClassifierEmission, FrequencyEmission, SuffixEmission
    from ._hmm import HighOrderHMM
    from ._lattice import LatticeTooLargeError
    from ._max_arpa import read_max_arpa, write_max_arpa
    from ._sequences import split_sequences

__all__ = [
    "ClassifierEmission",
    "EditDistanceChannel",
    "FrequencyEmission",
    "HighOrderHMM",
    "KeypadChannel",
    "LatticeTooLargeError",
    "NoisyChannelDecoder",
    "SuffixEmission",
    "read_max_arpa",
    "split_sequences",
    "write_max_arpa",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._channels": ["EditDistanceChannel", "KeypadChannel"],
            "._decoder": ["NoisyChannelDecoder"],
            "._emissions": [
                "ClassifierEmission",
                "FrequencyEmission",
                "SuffixEmission",
            ],
            "._hmm": ["HighOrderHMM"],
            "._lattice": ["LatticeTooLargeError"],
            "._max_arpa": ["read_max_arpa", "write_max_arpa"],
            "._sequences": ["split_sequences"],
        },
    )
