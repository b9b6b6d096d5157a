/* The rounding mode of the processor. A kernel that needs another than the default sets it, works in functions of its own (never inlined,
 * so that no arithmetic moves across the change), and puts back exactly what it found. All modes here mask every exception. */
#ifndef VD_REPLAY_MODE_H
#define VD_REPLAY_MODE_H

#include <immintrin.h>

enum {
    VD_MODE_NEAREST  = 0x1F80, /* to nearest even, subnormals kept: the meaning of every plain operation */
    VD_MODE_TRUNCATE = 0x7F80, /* towards zero, subnormals kept */
    VD_MODE_FLUSH    = 0xFFC0  /* towards zero, subnormals are zeros, in and out: no assists */
};

static inline unsigned vd_mode_get(void) { return _mm_getcsr(); }
static inline void     vd_mode_set(unsigned mode) { _mm_setcsr(mode); }

#endif
