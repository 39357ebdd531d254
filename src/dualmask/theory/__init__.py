# SPDX-License-Identifier: Apache-2.0
"""The paper's analysis as executable, corrected mathematics; docs/theory.md says what of it is true.

Everything named here is numpy in double precision. What asks a model is in `theory.geometry` and
`theory.measurement`, which load torch.
"""

from dualmask.theory.conditions import delta1, delta2, exact_conditions, ordering, success_condition
from dualmask.theory.contraction import attention_weights, contract
from dualmask.theory.distances import (
    expected_sq_distance_segment,
    expected_sq_distance_triangle,
    monte_carlo,
    sample_segment,
    sample_triangle,
)
from dualmask.theory.rates import condition_rate

__all__ = [
    "attention_weights", "condition_rate", "contract", "delta1", "delta2", "exact_conditions",
    "expected_sq_distance_segment", "expected_sq_distance_triangle", "monte_carlo", "ordering", "sample_segment",
    "sample_triangle", "success_condition",
]
