"""The names of estimators; imports the standard library only, for the command."""

from typing import Literal, get_args

Quality = Literal["fast", "better", "best"]
QUALITIES: tuple[str, ...] = get_args(Quality)
