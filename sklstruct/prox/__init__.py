"""Proximal operators and norms of structured penalties."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._fused import (
        norm_fused_lasso,
        norm_total_variation,
        prox_fused_lasso,
        prox_total_variation,
    )
    from ._groups import (
        norm_group_lasso,
        norm_overlapping_groups,
        norm_tree_groups,
        prox_group_lasso,
        prox_overlapping_groups,
        prox_tree_groups,
    )
    from ._matrices import norm_trace, prox_trace
    from ._penalty_of_skglm import tree_penalty
    from ._tree_prox import (
        norm_tree_l2,
        norm_tree_linf,
        prox_tree_l2,
        prox_tree_linf,
    )
    from ._vectors import (
        norm_elastic_net,
        norm_l0,
        norm_l1,
        norm_l2,
        norm_l2_squared,
        norm_linf,
        norm_lp,
        prox_elastic_net,
        prox_l0,
        prox_l1,
        prox_l2,
        prox_l2_squared,
        prox_linf,
        prox_lp,
    )

__all__ = [
    "norm_elastic_net",
    "norm_fused_lasso",
    "norm_group_lasso",
    "norm_l0",
    "norm_l1",
    "norm_l2",
    "norm_l2_squared",
    "norm_linf",
    "norm_lp",
    "norm_overlapping_groups",
    "norm_total_variation",
    "norm_trace",
    "norm_tree_groups",
    "norm_tree_l2",
    "norm_tree_linf",
    "prox_elastic_net",
    "prox_fused_lasso",
    "prox_group_lasso",
    "prox_l0",
    "prox_l1",
    "prox_l2",
    "prox_l2_squared",
    "prox_linf",
    "prox_lp",
    "prox_overlapping_groups",
    "prox_total_variation",
    "prox_trace",
    "prox_tree_groups",
    "prox_tree_l2",
    "prox_tree_linf",
    "tree_penalty",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._fused": [
                "norm_fused_lasso",
                "norm_total_variation",
                "prox_fused_lasso",
                "prox_total_variation",
            ],
            "._groups": [
                "norm_group_lasso",
                "norm_overlapping_groups",
                "norm_tree_groups",
                "prox_group_lasso",
                "prox_overlapping_groups",
                "prox_tree_groups",
            ],
            "._matrices": ["norm_trace", "prox_trace"],
            "._penalty_of_skglm": ["tree_penalty"],
            "._tree_prox": [
                "norm_tree_l2",
                "norm_tree_linf",
                "prox_tree_l2",
                "prox_tree_linf",
            ],
            "._vectors": [
                "norm_elastic_net",
                "norm_l0",
                "norm_l1",
                "norm_l2",
                "norm_l2_squared",
                "norm_linf",
                "norm_lp",
                "prox_elastic_net",
                "prox_l0",
                "prox_l1",
                "prox_l2",
                "prox_l2_squared",
                "prox_linf",
                "prox_lp",
            ],
        },
    )
