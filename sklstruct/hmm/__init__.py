"""Hidden Markov models of any order: exact decoding, marginals and samples."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._channels import EditDistanceChannel as EditDistanceChannel
    from ._channels import KeypadChannel as KeypadChannel
    from ._classifier_emission import ClassifierEmission as ClassifierEmission
    from ._decoder import NoisyChannelDecoder as NoisyChannelDecoder
    from ._emissions import CategoricalEmission as CategoricalEmission
    from ._hmm import HighOrderHMM as HighOrderHMM
    from ._suffix_emission import SuffixEmission as SuffixEmission
    from ._vector_emissions import GaussianEmission as GaussianEmission
    from ._vector_emissions import PoissonEmission as PoissonEmission
else:
    __all__, __getattr__, __dir__ = face(__name__)
