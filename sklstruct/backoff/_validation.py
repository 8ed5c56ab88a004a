"""Checks of the arrays that enter the kernels. All raise before any work."""

import numpy as np

INT32_MAX = 2**31 - 1


def as_ids(name, value, ndim, dtype=np.int32, contiguous=True):
    """`value` as an integer array, or a ValueError that names it."""
    array = np.asarray(value)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} must be a {ndim}-dimensional array of integers, got "
            f"{array.ndim} dimension(s)."
        )
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(dtype)  # np.asarray([]) is float
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got dtype {array.dtype}.")
    if array.dtype.itemsize > 4 and dtype == np.int32 and array.size:
        low, high = int(array.min()), int(array.max())
        if low < -INT32_MAX or high > INT32_MAX:
            raise ValueError(
                f"{name} holds {low if low < -INT32_MAX else high}, which does not "
                "fit a 32-bit id."
            )
    elif array.dtype == np.uint32 and array.size and int(array.max()) > INT32_MAX:
        raise ValueError(f"{name} holds values that do not fit a 32-bit id.")
    if not contiguous:
        return array.astype(dtype, copy=False)
    return np.ascontiguousarray(array, dtype=dtype)


def as_floats(name, value, ndim=1):
    """`value` as a C-contiguous float64 array, or a ValueError that names it."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ValueError(f"{name} must hold numbers: {exc}") from exc
    if array.ndim != ndim:
        raise ValueError(
            f"{name} must be a {ndim}-dimensional array, got {array.ndim} dimension(s)."
        )
    return np.ascontiguousarray(array)


def check_range(name, array, low, high, what):
    """Every entry of `array` lies in low..high-1."""
    if array.size == 0:
        return
    smallest, largest = int(array.min()), int(array.max())
    if smallest < low or largest >= high:
        bad = smallest if smallest < low else largest
        where = np.argwhere(array == bad)[0].tolist()
        where = where[0] if len(where) == 1 else tuple(where)
        raise ValueError(
            f"{name}[{where}] = {bad} is no {what}: it must be in {low}..{high - 1}."
        )


def check_length(name, array, length, why):
    if array.shape[0] != length:
        raise ValueError(
            f"{name} must have {length} entries ({why}), got {array.shape[0]}."
        )


def check_pointers(name, pointers, first, last):
    """Pointers never fall, start at `first`, end at `last`."""
    if int(pointers[0]) != first or int(pointers[-1]) != last:
        raise ValueError(
            f"{name} must start at {first} and end at {last}, got "
            f"{int(pointers[0])} and {int(pointers[-1])}."
        )
    falls = np.flatnonzero(pointers[1:] < pointers[:-1])
    if falls.size:
        i = int(falls[0]) + 1
        raise ValueError(
            f"{name} must not fall, but {name}[{i}] = {int(pointers[i])} < "
            f"{name}[{i - 1}] = {int(pointers[i - 1])}."
        )


def check_sorted_groups(name, keys, pointers, what):
    """Keys rise strictly within each group pointers[g]:pointers[g + 1]."""
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
            f"{name} must rise strictly within a node ({what}), but {name}[{i}] = "
            f"{int(keys[i])} follows {int(keys[i - 1])} at node {group}."
        )
