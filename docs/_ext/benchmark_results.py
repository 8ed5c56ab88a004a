"""Results as the pages show them, without Sphinx: also for tests."""

from __future__ import annotations

from statistics import mean, pstdev


def plain(value: object) -> str:
    """A value as `where` writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def written(value: object, how: str) -> str:
    if value is None:
        return ""
    if how and isinstance(value, (int, float)):
        if how.endswith("d"):
            value = round(value)
        # a narrow space between thousands, as in the rest of the pages
        return format(value, how).replace(",", "\N{NARROW NO-BREAK SPACE}")
    return plain(value)


def summary(results: list, name: str, how: str) -> str:
    """The value of one result; mean and deviation of several (splits)."""
    values = [result[name] for result in results if name in result]
    if len(values) < 2:
        return written(values[0], how) if values else ""
    return f"{written(mean(values), how)} ± {written(pstdev(values), how)}"


def is_best(own: list, rivals: list[list], name: str, how: str, best) -> bool:
    """Whether the mean of `own` is written like the best mean (`min` or `max`)."""

    def middle(results: list) -> float | None:
        values = [result[name] for result in results if result.get(name) is not None]
        return mean(values) if values else None

    means = [value for value in map(middle, rivals) if value is not None]
    return middle(own) in means and written(middle(own), how) == written(
        best(means), how
    )


def figure(results: list, text: str) -> str:
    """The parts of the role `figure`: ``file | where | field | format``, or the mean of
    several results with a fifth part ``mean``.

    Raises
    ------
    ValueError
        If there is not one such result, or not several.
    """
    _, where, field, how, *rest = [part.strip() for part in text.split("|")]
    found = [r["figures"] for r in results if selects(where, r["case"])]
    if rest not in ([], ["mean"]) or (len(found) > 1) != bool(rest):
        raise ValueError(f"{len(found)} results for {text!r}")
    values = [figures[field] for figures in found if field in figures]
    if not values or len(values) < len(found):
        raise ValueError(f"no such field for {text!r}")
    return written(mean(values) if rest else values[0], how)


def selects(where: str, case: dict) -> bool:
    """Whether a case meets all of ``key = value, value; key == one, with comma``."""
    for part in filter(str.strip, where.split(";")):
        key, _, values = part.partition("=")
        # the whole first: a value may hold a comma
        allowed = [values.strip(), *(value.strip() for value in values.split(","))]
        if values.startswith("="):  # only the whole
            allowed = [values[1:].strip()]
        if plain(case.get(key.strip(), "")) not in allowed:
            return False
    return True
