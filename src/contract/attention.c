/* Attention in the order of cuDNN 9.19's forward kernel on Hopper: tiles of 128 keys ascending, a running maximum, four lanes for the
 * denominator; and the same frame around fma/pair and fp32 products. */
#include "contract/contract.h"

float vd_attention_scale(int64_t d) { return (float)(0x1.71547652b82fep+0 / sqrt((double)d)); }

typedef struct frame {
    vd_order order;
    int64_t  d;
    vd_dtype type;
} frame;

static float sum_products(const frame *f, float c, const void *a, const void *b, int64_t k)
{
    switch (f->order) {
    case VD_ATTN_K128_PAIR: return vd_fma_pair(c, a, b, k);
    case VD_ATTN_K128_F32: return vd_fma_chain(c, a, b, VD_F32, k);
    default: return vd_tc16_chain(c, a, b, k);
    }
}

/* The sum of one column of o goes on over a tile's keys: p [keys] and v's column, both in the type of the products. */
static float add_values(const frame *f, float c, const float *p, const void *v, int64_t v_stride, int64_t column, int64_t keys)
{
    uint16_t p16[VD_ATTN_TILE], v16[VD_ATTN_TILE];
    float    v32[VD_ATTN_TILE];
    for (int64_t j = 0; j < keys; j++) {
        v32[j] = vd_load(v, f->type, j * v_stride + column);
        p16[j] = vd_to_bf16(p[j]);
        v16[j] = vd_to_bf16(v32[j]); /* exact: v is bf16 where this is used */
    }
    return f->type == VD_F32 ? sum_products(f, c, p, v32, keys) : sum_products(f, c, p16, v16, keys);
}

void vd_attention_row(vd_order order, int64_t s, int64_t d, const void *q, const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                      void *o, float *sums)
{
    const frame   f     = {order, d, order == VD_ATTN_K128_F32 ? VD_F32 : VD_BF16};
    const int64_t size  = vd_dtype_size(f.type);
    const float   scale = vd_attention_scale(d);
    float         top   = -INFINITY, lanes[4] = {0};
    for (int64_t c = 0; c < d; c++)
        sums[c] = 0.0f;
    for (int64_t first = 0; first < s; first += VD_ATTN_TILE) {
        const int64_t keys = s - first < VD_ATTN_TILE ? s - first : VD_ATTN_TILE; /* keys beyond the end change nothing */
        const char   *kt = (const char *)k + first * k_stride * size, *vt = (const char *)v + first * v_stride * size;
        float         t[VD_ATTN_TILE], p[VD_ATTN_TILE], tile[4] = {0}, top_now = top;
        for (int64_t j = 0; j < keys; j++) {
            t[j]    = sum_products(&f, 0.0f, q, kt + j * k_stride * size, d) * scale;
            top_now = t[j] > top_now ? t[j] : top_now; /* a NaN is no maximum */
        }
        for (int64_t j = 0; j < keys; j++) {
            p[j] = vd_ex2(t[j] - top_now);
            tile[j % 8 / 2] += p[j];
        }
        const float alpha = vd_ex2(top - top_now);
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] = first == 0 ? tile[lane] : fmaf(lanes[lane], alpha, tile[lane]);
        for (int64_t c = 0; c < d; c++)
            sums[c] = add_values(&f, first == 0 ? 0.0f : sums[c] * alpha, p, vt, v_stride, c, keys);
        top = top_now;
    }
    const float r = vd_rcp((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
    for (int64_t c = 0; c < d; c++)
        vd_store(o, f.type, c, sums[c] * r);
}
