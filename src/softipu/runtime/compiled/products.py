"""Products of matrices as they run fastest beside compiled loops."""

from typing import Any, Dict, Optional, Tuple

import torch

aten = torch.ops.aten


def product_plus_bias(target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[torch.Tensor]:
    """An addmm with a bias vector as a product and a sum; None for anything else.

    addmm first writes the bias into every row of the result and lets the product add to it, which costs up to a third of the product. A sum
    becomes part of the loop that reads the product.
    """
    if target is not aten.addmm.default or kwargs:
        return None
    bias, a, b = args
    if bias.dim() != 1:
        return None
    product = aten.mm.default(a, b)
    # Not as [rows, columns]: Inductor makes an addmm of a product and a sum that follow each other.
    return (product.unsqueeze(0) + bias).squeeze(0)
