"""Hidden Markov models of any order: exact decoding, marginals and samples."""

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
