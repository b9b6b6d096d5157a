/* How much memory a job may still take, so that one that cannot fit is refused with numbers instead of being killed half-way. */
#ifndef VD_MEMORY_H
#define VD_MEMORY_H

#include <stdint.h>

/* Bytes that the kernel says can be had without swapping; -1 where it does not say. */
int64_t vd_available_memory(void);

#endif
