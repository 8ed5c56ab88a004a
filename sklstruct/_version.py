"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("sklstruct")
except PackageNotFoundError as exc:  # a copied folder without its metadata
    raise ImportError(
        "sklstruct's compiled kernels are here but its package metadata is not: "
        "install it with `pip install .`"
    ) from exc
