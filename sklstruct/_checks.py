"""Checks of data that scikit-learn does not make. All of them raise before any work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sized
from datetime import date, timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np

from ._lazy import stored

# The largest 32-bit id, and the largest integer of a kernel.
INT32_MAX = int(np.iinfo(np.int32).max)
INT64_MAX = int(np.iinfo(np.int64).max)


def check_byte_order(what: str) -> None:
    """OSError unless the machine is little-endian, as the numbers in files are."""
    if sys.byteorder != "little":
        raise OSError(f"{what} are read and written on little-endian machines")


def check_sparse(X: Any, name: str = "X") -> None:
    """Raise ValueError if a sparse X points outside of its arrays or its shape.

    `check_array` does not check the indices, and neither do our kernels and the loops
    of SciPy that convert formats. `check_format` of SciPy checks some formats, but may
    change X. One pass over the indices; call it before anything else reads X. An X that
    is not sparse passes.
    """
    import scipy.sparse as sp

    if not sp.issparse(X):
        return
    n_axes = 2
    try:
        n_axes = X.ndim
        fault = _fault_of(X) if n_axes == 2 else ""
    except (AttributeError, TypeError, ValueError, ArithmeticError, IndexError) as exc:
        # A part of X has a wrong type, for example a row that is not a list.
        fault = str(exc) or type(exc).__name__
    if n_axes != 2:
        raise ValueError(f"{name} must have 2 dimensions, got {n_axes}")
    if fault:
        raise ValueError(
            f"{name} is a malformed {X.format.upper()} matrix: {fault}; make it again, "
            "for example from (data, (row, column))"
        )


def _fault_of(X: Any) -> str:
    """The fault of a sparse matrix; "" for a sound matrix."""
    if X.format in ("csr", "csc"):
        indptr, indices, data = X.indptr, X.indices, X.data
        n_major, n_minor = X.shape[::-1] if X.format == "csc" else X.shape
        if indptr.shape != (n_major + 1,) or indices.shape != data.shape:
            return "its arrays have the wrong sizes"
        if data.ndim != 1:
            return "its arrays have the wrong sizes"
        if indptr.dtype.kind not in "iu":
            return f"indptr must be integers, got {indptr.dtype}"
        if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
            return "indptr must start with 0 and not decrease"
        if indptr[-1] > indices.size:
            return f"indptr ends at {indptr[-1]}, beyond the {indices.size} entries"
        return _outside(indices, n_minor)
    if X.format == "lil" and [*map(len, X.rows)] != [*map(len, X.data)]:
        return "its lists have the wrong sizes"  # a loop without checks copies them
    if X.format == "dia":  # SciPy subtracts offsets from 32-bit ids, without checks
        limit = INT32_MAX - max(X.shape)
        if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1]:
            return "its arrays have the wrong sizes"
        if np.abs(X.offsets.astype(np.float64)).max(initial=0) > limit:
            return f"offsets must be from {-limit} to {limit}"
    if X.format == "coo" and [i.shape for i in X.coords] != 2 * [X.data.shape]:
        return "its arrays have the wrong sizes"
    coords = X.tocoo().coords
    faults = [_outside(index, size) for index, size in zip(coords, X.shape)]
    return faults[0] or faults[1]


def _outside(index: np.ndarray, n: int) -> str:
    """The fault of an index array with entries outside of 0 ... n - 1; "" if none."""
    if index.dtype.kind not in "iu":
        return f"indices must be integers, got {index.dtype}"
    if index.size and not 0 <= index.min() <= index.max() < n:
        return f"indices must be from 0 to {n - 1}, got {index.min()} to {index.max()}"
    return ""


def as_indicator(y: Any, name: str) -> Any:
    """An array or sparse matrix of 0 and 1 as a canonical CSR matrix, a copy."""
    import scipy.sparse as sp

    Y = sp.csr_matrix(y, copy=True)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    if (Y.data != 1).any():
        raise ValueError(
            f"{name} must be an indicator matrix of 0 and 1, and has "
            f"{Y.data[Y.data != 1][0].item()!r}; make one with "
            "sklearn.preprocessing.MultiLabelBinarizer"
        )
    return Y


def check_squares(X: Any, dtype: Any = None, name: str = "X") -> None:
    """Raise ValueError if sums of squares of a checked X may overflow.

    dtype: the type of the sums; None: the type of X.
    """
    import scipy.sparse as sp

    dtype = np.dtype(X.dtype if dtype is None else dtype)
    data = X.data if sp.issparse(X) else X
    # a Python float: NumPy would compare a float32 with the limit in float32
    top = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    # the square of the limit leaves a factor of 1e8 for sums over samples and features
    limit = 1e-4 * float(np.finfo(dtype).max) ** 0.5
    if top > limit:
        raise ValueError(
            f"{name} has entries of size {top:.2g}, whose squares overflow {dtype}; "
            f"entries may be up to {limit:.2g}. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler"
        )


def as_ids(
    name: str,
    value: Any,
    ndim: int,
    dtype: Any = np.int32,
    contiguous: bool = True,
) -> np.ndarray:
    """`value` as an integer array, or a ValueError that names it."""
    array = np.asarray(value)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} must be a {ndim}-dimensional array of integers, got "
            f"{array.ndim} dimension(s)"
        )
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(dtype)  # np.asarray([]) is float
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.size and not np.can_cast(array.dtype, dtype):
        low, high, most = int(array.min()), int(array.max()), int(np.iinfo(dtype).max)
        if low < -most or high > most:
            raise ValueError(
                f"{name} holds {low if low < -most else high}, which does not fit a "
                f"{8 * np.dtype(dtype).itemsize}-bit id"
            )
    if not contiguous:
        return array.astype(dtype, copy=False)
    return np.ascontiguousarray(array, dtype=dtype)


def as_floats(name: str, value: Any, ndim: int | None = 1) -> np.ndarray:
    """`value` as a C-contiguous float64 array, or a ValueError that names it.

    ndim: the required number of dimensions; None: any.
    """
    try:
        # NumPy would drop the imaginary part, or the mask, of an array.
        if hasattr(value, "dtype") and (
            np.iscomplexobj(value) or np.ma.is_masked(value)
        ):
            raise TypeError("entries are complex or masked")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f"{name} must hold numbers: {exc!s:.100}") from exc
    if ndim not in (None, array.ndim):
        raise ValueError(
            f"{name} must be a {ndim}-dimensional array, got {array.ndim} dimension(s)"
        )
    return np.ascontiguousarray(array)


def check_ids(name: str, array: np.ndarray, low: int, high: int, what: str) -> None:
    """ValueError unless every entry of `array` is from low to high - 1.

    what: the kind of the ids, for the message.
    """
    if array.size == 0:
        return
    smallest, largest = int(array.min()), int(array.max())
    if smallest < low or largest >= high:
        bad = smallest if smallest < low else largest
        where = np.argwhere(array == bad)[0].tolist()
        where = where[0] if len(where) == 1 else tuple(where)
        raise ValueError(
            f"{name}[{where}] = {bad} is not a {what}: it must be in {low}..{high - 1}"
        )


def check_length(name: str, values: Sized, length: int, why: str) -> None:
    """ValueError unless there are `length` values; why: the reason, for the message."""
    if len(values) != length:
        raise ValueError(
            f"{name} must have {length} entries ({why}), got {len(values)}"
        )


def strings_as_objects(values: Any) -> Any:
    """An array of NumPy's StringDType as objects; any other value unchanged.

    The checks of scikit-learn and NumPy's `isdtype` raise errors for StringDType.
    """
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    return values.astype(object) if kind == "T" else values


def check_dates(labels: np.ndarray) -> None:
    """ValueError for labels that are Python's dates or times.

    NumPy's dates are valid labels, as in scikit-learn, whose message about objects does
    not name the cause.
    """
    if labels.dtype == object and labels.size:
        first = labels.flat[0]
        if isinstance(first, (date, timedelta)):
            kind = "timedelta64" if isinstance(first, timedelta) else "datetime64"
            raise ValueError(
                f"y holds objects such as {first!r}: pass strings, or dates of NumPy "
                f'by np.array(y, dtype="{kind}[us]")'
            )


def check_samples(n_x: int, n_y: int, names: str = "X and y") -> None:
    """ValueError, in scikit-learn's words, if X and y have different lengths."""
    if n_x != n_y:
        raise ValueError(
            f"{names} have inconsistent numbers of samples: {n_x} and {n_y}"
        )


def check_pointers(name: str, pointers: np.ndarray, last: int) -> None:
    """ValueError unless pointers start at 0, never decrease, and end at `last`."""
    if int(pointers[0]) != 0 or int(pointers[-1]) != last:
        raise ValueError(
            f"{name} must start at 0 and end at {last}, got "
            f"{int(pointers[0])} and {int(pointers[-1])}"
        )
    falls = np.flatnonzero(pointers[1:] < pointers[:-1])
    if falls.size:
        i = int(falls[0]) + 1
        raise ValueError(
            f"{name} must not fall, but {name}[{i}] = {int(pointers[i])} < "
            f"{name}[{i - 1}] = {int(pointers[i - 1])}"
        )


def check_sorted_groups(name: str, keys: np.ndarray, pointers: np.ndarray) -> None:
    """ValueError unless keys increase strictly in each pointers[g]:pointers[g + 1]."""
    if keys.size < 2:
        return
    bad = keys[1:] <= keys[:-1]
    starts = pointers[1:-1]
    starts = starts[(starts > 0) & (starts < keys.size)]
    bad[starts - 1] = False
    where = np.flatnonzero(bad)
    if where.size:
        i = int(where[0]) + 1
        group = int(np.searchsorted(pointers, i, side="right")) - 1
        raise ValueError(
            f"{name} must rise strictly within a node (classes are sorted), but "
            f"{name}[{i}] = {int(keys[i])} follows {int(keys[i - 1])} at node {group}"
        )


def weight_keyword(estimator: Any) -> str | None:
    """Name of the parameter of `fit` for sample weights; None if `fit` lacks it."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    from ._compat import _routing_enabled

    prefix, name, last = "", "sample_weight", estimator
    if isinstance(estimator, Pipeline) and _routing_enabled():
        return name  # the pipeline raises unless its steps request the weights
    while isinstance(last, Pipeline):
        prefix += f"{last.steps[-1][0]}__"
        last = last.steps[-1][1]
    return prefix + name if has_fit_parameter(last, name) else None


def need_weights(estimator: Any) -> str:
    """Name of the parameter of `fit` for sample weights; ValueError without it."""
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"sample_weight was given, but {type(estimator).__name__}.fit does not "
            "take it; leave sample_weight None, or use another estimator"
        )
    return keyword


def is_frozen(estimator: Any) -> bool:
    """Whether a classifier, or one inside of other estimators, is a FrozenEstimator."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline

    while not isinstance(estimator, FrozenEstimator):
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "get_params") and hasattr(estimator, "estimator"):
            estimator = estimator.estimator  # of a search, a calibration, ...
        else:
            return False
    return True


def check_learned(name: str, labels: Any, known: np.ndarray) -> None:
    """ValueError if a classifier has `labels` that its `fit` did not get in `known`."""
    # sets, because NumPy compares strings and numbers with each other
    others = {*np.asarray(labels).tolist()} - {*known.tolist()}
    if others:
        raise ValueError(
            f"{name}: the classifier must learn numbers that stand for the labels, but "
            f"knows {min(others, key=str)!r:.60} instead; pass an unfitted classifier "
            "that is not in a FrozenEstimator"
        )


def require_method(estimator: Any, name: str) -> None:
    """AttributeError, with the reason, if an estimator lacks an optional method."""
    getattr(estimator, name)


def validate_parts(*parts: Any) -> None:
    """scikit-learn's errors about the parameters of estimators, before any work.

    Estimators without constraints, such as those of users, are not checked.
    """
    for part in parts:
        if hasattr(part, "_parameter_constraints"):
            part._validate_params()


class CheckedState:
    """Base of the classes whose arrays are indices in kernels: checks them on loading.

    A subclass checks its arrays in `_check_arrays`, in one pass over them. A damaged
    pickle is then a ValueError, and not a crash of the interpreter later.
    """

    def _check_arrays(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return stored(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._check_arrays()


def least_weight(min_count: int) -> float:
    """The least total weight that counts as `min_count` occurrences.

    It is 0 for ``min_count=1``: every occurrence is enough.
    """
    # Rounding may make a sum of fractions smaller than the integer that it equals.
    return 0.0 if min_count == 1 else min_count * (1.0 - 1e-9)


def physical_memory() -> float:
    """Bytes of memory of this machine; infinite if the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """MemoryError if an object is too large; the message has its size and the remedy.

    The operating system may grant more memory than the machine has, and kill the
    process when the memory is used. So the size is checked before the allocation.
    """
    limit = physical_memory()
    if n_bytes > limit:
        raise MemoryError(
            f"{what} needs {n_bytes / 2**30:.3g} GiB, more than this machine's "
            f"{limit / 2**30:.3g} GiB; {remedy}"
        )


def as_numbers(name: str, value: Any, what: str = "numbers") -> np.ndarray:
    """`value` as a float64 array of at least one dimension.

    what: the expected value, for the message.
    """
    try:
        return np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f"{name} must be {what}, got {value!r:.60}") from exc


def by_depth(name: str, value: Any) -> np.ndarray:
    """A parameter that is one number, or one number per depth, as a vector."""
    given = as_numbers(name, value)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(
            f"{name} must be one number, or a sequence with one for each depth; got "
            f"shape {given.shape}"
        )
    return given


def as_shares(value: Any, n: int, what: str) -> np.ndarray:
    """`value` as n non-negative weights, not yet divided by their sum.

    what: description of the weights, for messages.
    """
    shares = as_numbers("weights", value, what)
    if shares.shape != (n,):
        raise ValueError(f"weights must be {what}, got shape {shares.shape}")
    with np.errstate(over="ignore"):
        total = shares.sum()
    if total == np.inf and np.isfinite(shares).all():
        raise ValueError(
            f"weights: the sum of {shares.tolist()!r:.60} is too large for a float; "
            "divide the weights by the largest weight"
        )
    if not (shares >= 0.0).all() or not 0.0 < total < np.inf:
        raise ValueError(
            "weights must be non-negative, finite and not all zero, got "
            f"{shares.tolist()!r:.60}"
        )
    return shares


def check_count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int from `least` to `most`; ValueError for any other value."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be an integer {bounds}, got {value!r:.60}")
    number = int(value)
    if number > INT64_MAX:  # kernels could not take the number
        raise ValueError(f"{name} must be at most {INT64_MAX}, got {number}")
    return number


def check_real(name: str, value: Any, interval: str) -> float:
    """`value` as a float; ValueError unless it is in an interval such as "(0, 1]"."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not _inside(value, interval):
        raise ValueError(f"{name} must be a number in {interval}, got {value!r:.60}")
    return float(as_numbers(name, value, "a number below 1.8e308")[0])


def check_reals(name: str, array: np.ndarray, interval: str) -> None:
    """ValueError, with the first wrong number, unless all lie in an interval."""
    good = np.ravel(_inside(array, interval))
    if not good.all():
        i = int(np.argmin(good))
        at = f"{name}[{i}] = " if good.size > 1 else ""
        raise ValueError(
            f"{name} must hold numbers in {interval}, got {at}{np.ravel(array)[i]}"
        )


def _inside(value, interval):
    low, high = map(float, interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    return above & (value <= high if interval[-1] == "]" else value < high)


def check_choice(name: str, value: Any, known: Iterable) -> None:
    """ValueError unless a value is one of the known values."""
    if value not in (known := [*known]):
        names = ", ".join(map(str, known))
        raise ValueError(f"{name} must be one of {names}, got {value!r:.60}")


def last_share(
    n: int, share: float, name: str = "X", remedy: str = "give X_val and y_val"
) -> int:
    """Number of the last of n samples that are held out, share * n rounded up.

    ValueError, with the parameter and the remedy, if no sample would be left.
    """
    n_held = int(np.ceil(share * n))
    if n_held >= n:
        raise ValueError(
            f"{name}: of {n} sample(s), {n_held} would be held out, and none be left "
            f"to learn from; {remedy}, or more samples"
        )
    return n_held


def check_top_k(k: Any, n_classes: int) -> int:
    """`k` as an int from 1 to n_classes; ValueError for any other `k`."""
    if isinstance(k, Integral) and not isinstance(k, bool) and 1 <= int(k) <= n_classes:
        return int(k)
    raise ValueError(
        f"k must be an integer from 1 to n_classes={n_classes}, got {k!r:.60}"
    )


def check_rows(n_rows: int, n_classes: int) -> None:
    """MemoryError if a float64 matrix (n_rows, n_classes) exceeds the memory."""
    check_memory(
        8.0 * n_rows * n_classes,
        f"the matrix of {n_rows} rows and {n_classes} classes",
        "ask for the targets alone (target_log_proba), the best classes (predict, "
        "predict_top_k) or fewer rows at a time",
    )


def as_random_state(random_state: Any) -> np.random.RandomState:
    """The RandomState of a parameter `random_state`.

    Draws advance the state of a Generator, as of a RandomState. None: NumPy's global
    RandomState.
    """
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        # It shares the bit generator, so that later draws of the caller differ.
        return np.random.RandomState(random_state.bit_generator)
    try:
        return check_random_state(random_state)
    except ValueError as exc:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1, a "
            f"numpy.random.RandomState or a numpy.random.Generator, got "
            f"{random_state!r:.60}"
        ) from exc
