"""Proximal operators and norms of structured penalties."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._fused import norm_fused_lasso as norm_fused_lasso
    from ._fused import norm_total_variation as norm_total_variation
    from ._fused import prox_fused_lasso as prox_fused_lasso
    from ._fused import prox_total_variation as prox_total_variation
    from ._groups import norm_group_lasso as norm_group_lasso
    from ._groups import norm_overlapping_groups as norm_overlapping_groups
    from ._groups import prox_group_lasso as prox_group_lasso
    from ._groups import prox_overlapping_groups as prox_overlapping_groups
    from ._matrices import prox_trace as prox_trace
    from ._tree_prox import norm_tree_l2 as norm_tree_l2
    from ._tree_prox import norm_tree_linf as norm_tree_linf
    from ._tree_prox import prox_tree_l2 as prox_tree_l2
    from ._tree_prox import prox_tree_linf as prox_tree_linf
    from ._vectors import norm_elastic_net as norm_elastic_net
    from ._vectors import norm_lp as norm_lp
    from ._vectors import prox_elastic_net as prox_elastic_net
    from ._vectors import prox_l0 as prox_l0
    from ._vectors import prox_l1 as prox_l1
    from ._vectors import prox_l2_squared as prox_l2_squared
    from ._vectors import prox_lp as prox_lp
else:
    __all__, __getattr__, __dir__ = face(__name__)
