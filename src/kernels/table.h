/* The table of kernels: one function pointer per operation. Models call nothing else, so one forward runs on every backend and level.
 *
 * Every entry returns the bytes of src/contract/, whatever the level, threads and tiles. Arguments describe tensors: pointer, element
 * type, shape in comments, strides in elements between rows (the last dimension is contiguous). Any alignment that a file can bring is
 * legal for weights; outputs must not overlap inputs unless the entry says so. Entries cannot fail on legal arguments; a device that can
 * fail records it in exec->status, which stays.
 */
#ifndef VD_KERNELS_TABLE_H
#define VD_KERNELS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "contract/contract.h"
#include "verdit.h"

/* What a kernel call runs on. `scratch` is shared by all calls of a forward: the plan reserves the largest need before it starts. */
typedef struct vd_exec {
    int       threads;
    void     *scratch;       /* 64-byte aligned */
    int64_t   scratch_bytes;
    vd_status status;
} vd_exec;

/* y = round(x wᵀ + b): the sum in `order`, the bias added once in fp32, one rounding to y's type. */
typedef struct vd_linear {
    vd_order    order;           /* VD_TC16_* or VD_FMA_PAIR: x and w bf16. VD_FMA_CHAIN, VD_FMA_FOLD512: x fp32, w fp32, or bf16 widened */
    int         splits;          /* for VD_TC16_SPLIT */
    int64_t     m, n, k;
    const void *x;  vd_dtype x_type; int64_t x_stride; /* [m, k] */
    const void *w;  vd_dtype w_type;                   /* [n, k] contiguous; any alignment */
    const void *b;  vd_dtype b_type;                   /* [n], or NULL */
    void       *y;  vd_dtype y_type; int64_t y_stride; /* [m, n] */
} vd_linear;

/* n = round_cast(x·rstd), y = round_y(n·w): the form that casts before the weight. With order VD_ROWSUM512 the fused form:
 * y = round_y((x·rstd)·w), `cast` is not used. */
typedef struct vd_rms_norm {
    vd_order    order;           /* VD_ROWSUM128 or VD_ROWSUM512 */
    float       eps;
    int64_t     m, n;
    vd_dtype    cast;
    const void *x;  vd_dtype x_type; int64_t x_stride; /* [m, n] */
    const void *w;  vd_dtype w_type;                   /* [n] */
    void       *y;  vd_dtype y_type; int64_t y_stride; /* [m, n]; y may be x */
} vd_rms_norm;

/* The norm (VD_ROWSUM128, cast before the weight), then ·(1 + scale) + shift. `round` is the type after each of x·r, ·w, 1+scale, product. */
typedef struct vd_norm_modulate {
    float       eps;
    int64_t     m, n;
    vd_dtype    round;
    const void *x;  vd_dtype x_type; int64_t x_stride;  /* [m, n] */
    const void *w;  vd_dtype w_type;                    /* [n] */
    const void *scale, *shift; vd_dtype mod_type;       /* [n] each */
    void       *y;  vd_dtype y_type; int64_t y_stride;  /* [m, n] */
} vd_norm_modulate;

/* Half-split rotary: pair p < d/2: y_p = x_p·cos_p − x_{p+d/2}·sin_p, y_{p+d/2} = x_{p+d/2}·cos_{p+d/2} + x_p·sin_{p+d/2}.
 * `round` is the type after each product and each sum; then one rounding to y's type. */
typedef struct vd_rotary {
    int64_t     m, heads, d;
    vd_dtype    round;
    const void *x;  vd_dtype x_type; int64_t x_stride; /* [m, heads·d] */
    const void *cos, *sin; vd_dtype table_type;        /* [m, d] contiguous */
    void       *y;  vd_dtype y_type; int64_t y_stride; /* [m, heads·d]; y may be x */
} vd_rotary;

/* Per head: the norm over d (VD_ROWSUM128, cast before the weight to `cast`, then rounded to `round` after the weight), then rotary. */
typedef struct vd_head_norm_rotary {
    vd_rotary   rotary;
    float       eps;
    vd_dtype    cast;
    const void *w;  vd_dtype w_type;                   /* [d] */
} vd_head_norm_rotary;

/* o = softmax(q kᵀ/√d) v per head. */
typedef struct vd_attention {
    vd_order    order;           /* VD_ATTN_K128, VD_ATTN_K128_PAIR: bf16; VD_ATTN_K128_F32: fp32 */
    int64_t     m, s, heads, d;  /* m query rows, s keys */
    vd_dtype    type;            /* of q, k, v, o */
    const void *q;  int64_t q_stride;                  /* [m, heads·d] */
    const void *k;  int64_t k_stride;                  /* [s, heads·d] */
    const void *v;  int64_t v_stride;                  /* [s, heads·d] */
    void       *o;  int64_t o_stride;                  /* [m, heads·d] */
} vd_attention;

/* y = (4·tanh(g/4)·sigmoid(g))·(25·tanh(u/25)). `round` is the type after each of its nine operations. */
typedef struct vd_situ {
    int64_t     m, n;
    vd_dtype    round;
    const void *u, *g; vd_dtype x_type; int64_t x_stride; /* [m, n] each, same stride */
    void       *y;  vd_dtype y_type; int64_t y_stride;    /* [m, n] */
} vd_situ;

/* o = x + y·gate, product and sum rounded to o's type each; gate NULL: o = x + y. */
typedef struct vd_gated_residual {
    int64_t     m, n;
    const void *x;  vd_dtype x_type; int64_t x_stride; /* [m, n] */
    const void *y;  vd_dtype y_type; int64_t y_stride; /* [m, n] */
    const void *gate; vd_dtype gate_type;              /* [n], or NULL */
    void       *o;  int64_t o_stride;                  /* [m, n], x's type; o may be x */
} vd_gated_residual;

typedef enum vd_function {
    VD_SILU, VD_TANH, VD_SIGMOID, VD_EXP, VD_SOFTPLUS, VD_EX2, VD_RSQ, VD_RCP, VD_SIN, VD_COS,
    VD_CONVERT,      /* y = x, rounded to y's type */
    VD_FUNCTION_COUNT
} vd_function;

/* y_i = round(f(x_i)): the fp32 function of the widened input, one rounding to y's type. */
typedef struct vd_map {
    vd_function f;
    int64_t     n;
    const void *x;  vd_dtype x_type;
    void       *y;  vd_dtype y_type;                   /* y may be x when the types are equal */
} vd_map;

/* y[j, i] = convert(x[i, j]): pictures are [channels, positions], rows are [positions, channels]. */
typedef struct vd_transpose {
    int64_t     m, n;
    const void *x;  vd_dtype x_type; int64_t x_stride; /* [m, n] */
    void       *y;  vd_dtype y_type; int64_t y_stride; /* [n, m] */
} vd_transpose;

/* y[i, :] = x[rows[i], :]. */
typedef struct vd_gather {
    int64_t        m, n;
    const int64_t *rows;                               /* [m], each a row of x */
    vd_dtype       type;
    const void    *x; int64_t x_stride;                /* [any, n] */
    void          *y; int64_t y_stride;                /* [m, n] */
} vd_gather;

typedef struct vd_kernels vd_kernels;
struct vd_kernels {
    const char *level; /* the newest level that filled an entry: "generic", "avx2", … */
    void (*linear)(vd_exec *, const vd_linear *);
    void (*rms_norm)(vd_exec *, const vd_rms_norm *);
    void (*norm_modulate)(vd_exec *, const vd_norm_modulate *);
    void (*rotary)(vd_exec *, const vd_rotary *);
    void (*head_norm_rotary)(vd_exec *, const vd_head_norm_rotary *);
    void (*attention)(vd_exec *, const vd_attention *);
    void (*situ)(vd_exec *, const vd_situ *);
    void (*gated_residual)(vd_exec *, const vd_gated_residual *);
    void (*map)(vd_exec *, const vd_map *);
    void (*transpose)(vd_exec *, const vd_transpose *);
    void (*gather)(vd_exec *, const vd_gather *);
    /* Scratch that a call with these shapes, types and order needs at this many threads; data pointers are not read. */
    int64_t (*linear_scratch)(const vd_linear *, int threads);
    int64_t (*attention_scratch)(const vd_attention *, int threads);
};

/* Levels, oldest first. */
typedef enum vd_cpu_level { VD_CPU_GENERIC, VD_CPU_AVX2, VD_CPU_AVX512, VD_CPU_AVX512BF16, VD_CPU_LEVELS } vd_cpu_level;

const char  *vd_cpu_level_name(vd_cpu_level level);
vd_cpu_level vd_cpu_best_level(void);              /* of this machine, by CPUID and the operating system's state mask */
bool         vd_cpu_find_level(const char *name, vd_cpu_level *level);
/* Fills the table for a level: generic first, then each newer level's entries over it. The level must be one that the machine has. */
void vd_kernels_init_cpu(vd_kernels *table, vd_cpu_level level);

/* Fills the table for the context's options: the best level that the machine has, at most options.cpu. kernels/cpu/select.c */
vd_status vd_kernels_select(vd_context *ctx, vd_kernels *table);

/* Each level's file overrides the entries that it has. */
void vd_kernels_init_generic(vd_kernels *table);
void vd_kernels_init_avx2(vd_kernels *table);
void vd_kernels_init_avx512(vd_kernels *table);
void vd_kernels_init_avx512bf16(vd_kernels *table);

#endif
