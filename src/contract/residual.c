/* The residual with and without a gate: the product is rounded before the sum, so this is no fused multiply-add. */
#include "contract/contract.h"

float vd_gated_residual_value(float x, float y, float gate, vd_dtype round)
{
    const float product = vd_round(y * gate, round);
    return vd_canonical(vd_round(x + product, round));
}

float vd_residual_value(float x, float y, vd_dtype round) { return vd_canonical(vd_round(x + y, round)); }
