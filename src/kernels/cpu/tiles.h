/* Sizes of the work that a kernel takes at once. They are tuning only: none of them enters the order of a sum, so none may change a byte.
 * The bad-luck build makes them tiny and odd, so that every edge is met by small tests. */
#ifndef VD_CPU_TILES_H
#define VD_CPU_TILES_H

#ifdef VD_BAD_LUCK
enum {
    VD_TILE_ROWS    = 3,  /* rows (of x, or queries) of one block */
    VD_TILE_CELLS   = 7,  /* rows x steps of 16 that lie prepared at once */
    VD_TILE_OUTPUTS = 128, /* outputs of one task */
    VD_FMA_CELLS    = 512, /* fma linear: cells of k that lie prepared at once; room for fold512's leaf */
    VD_FMA_BLOCK    = 10,  /* those of them that are used where the order leaves it open; even */
    VD_FMA_STRIPS   = 2,   /* strips of rows that lie prepared at once */
    VD_FMA_COLUMNS  = 96,  /* outputs of one task; a multiple of 32 */
    VD_FMA_ROWS     = 37,  /* rows of one task */
    VD_ATTN_ROWS    = 11   /* queries of one task */
};
#else
enum {
    VD_TILE_ROWS    = 64,
    VD_TILE_CELLS   = 2048, /* 128 bytes each: 256 KiB, half of a small second-level cache */
    VD_TILE_OUTPUTS = 1024,
    VD_FMA_CELLS    = 512,
    VD_FMA_BLOCK    = 512,
    VD_FMA_STRIPS   = 16,  /* 198 KiB of rows with AVX2, 462 KiB with AVX-512: half of a second-level cache */
    VD_FMA_COLUMNS  = 768, /* 1.5 MiB of weights */
    VD_FMA_ROWS     = 1152,/* 3.4 MiB of sums */
    VD_ATTN_ROWS    = 1152 /* each range of queries lays out all keys and values again */
};
#endif

#endif
