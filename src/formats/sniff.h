/* Which other kind of file is this? */
#ifndef VD_SNIFF_H
#define VD_SNIFF_H

#include "core/core.h"

/* What the bytes are when they cannot be a safetensors file ("a GGUF file"), and what to do about it; NULL when nothing is recognised. */
const char *vd_sniff(const uint8_t *bytes, int64_t size, const char **advice);

/* Is this the name of weights in a form that is not read here? Then which, and what to do. */
const char *vd_sniff_name(const char *name, const char **advice);

#endif
