#include "contract/contract.h"

static const char *const ids[VD_ORDER_COUNT] = {
    [VD_TC16_CHAIN] = "tc16/chain@1",      [VD_TC16_SPLIT] = "tc16/splitS@1",         [VD_TC16_FOLD512] = "tc16/fold512@1",
    [VD_TC16_TREE8] = "tc16/tree8@1",      [VD_FMA_CHAIN] = "fma/chain@1",            [VD_FMA_FOLD512] = "fma/fold512@1",
    [VD_FMA_PAIR] = "fma/pair@1",          [VD_ROWSUM128] = "rowsum128@1",            [VD_ROWSUM512] = "rowsum512@1",
    [VD_ATTN_K128] = "attn/k128@1",        [VD_ATTN_K128_PAIR] = "attn/k128/pair@1",  [VD_ATTN_K128_F32] = "attn/k128/f32@1",
};

const char *vd_order_id(vd_order order)
{
    return (unsigned)order < VD_ORDER_COUNT ? ids[order] : NULL;
}

vd_order vd_order_find(const char *id)
{
    for (int i = 1; id && i < VD_ORDER_COUNT; i++) {
        const size_t name = (size_t)(strchr(ids[i], '@') - ids[i]);
        if (strcmp(id, ids[i]) == 0 || (strlen(id) == name && memcmp(id, ids[i], name) == 0))
            return (vd_order)i;
    }
    return VD_ORDER_NONE;
}
