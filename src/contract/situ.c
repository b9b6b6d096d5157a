/* SiTU, the gated activation of MOSS-Image: nine operations, each rounded. */
#include "contract/contract.h"

float vd_situ_value(float u, float g, vd_dtype round)
{
    const float gate_small = vd_round(vd_div4(g), round);
    const float gate_tanh  = vd_round(vd_tanh(gate_small), round);
    const float gate_four  = vd_round(4.0f * gate_tanh, round);
    const float gate_open  = vd_round(vd_sigmoid(g), round);
    const float gate       = vd_round(gate_four * gate_open, round);
    const float up_small   = vd_round(vd_div25(u), round);
    const float up_tanh    = vd_round(vd_tanh(up_small), round);
    const float up         = vd_round(25.0f * up_tanh, round);
    return vd_canonical(vd_round(gate * up, round));
}
