"""NamedMembers: estimators with a parameter that holds pairs of name and object."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ._compat import _BaseComposition


class NamedMembers(_BaseComposition):
    """Base of the estimators with named members, like the steps of a Pipeline.

    Subclasses set `members_in`, the name of the parameter.
    """

    members_in: ClassVar[str]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and, by name, of its members.

        Parameters
        ----------
        deep : bool, default=True
            Whether parameters of the members are included.

        Returns
        -------
        params : dict
        """
        return self._get_params(self.members_in, deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, replace members or set parameters of members.

        ``name=member`` replaces a member, ``name__parameter=value`` sets a parameter of
        a member.

        Parameters
        ----------
        **params : dict
            Parameters.

        Returns
        -------
        self : object
        """
        self._set_params(self.members_in, **params)
        return self

    def _check_members(self, kind: str, lack: str) -> list[tuple[str, Any]]:
        """The checked pairs (name, member); ValueError if the list is empty or wrong.

        kind: kind of the members. lack: consequence of an empty list, for the message.
        """
        members = getattr(self, self.members_in)
        if not members:
            raise ValueError(f"{self.members_in} is empty: {lack}")
        for item in members:
            if not (
                isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
            ):
                raise ValueError(
                    f"{self.members_in} must hold pairs (name, {kind}), got {item!r}"
                )
        try:
            self._validate_names([name for name, _ in members])
        except ValueError as exc:
            raise ValueError(f"{self.members_in}: {exc}") from exc
        return members
