/* What the fuzz targets share. A target must not crash, hang, over-read or take much memory, whatever the bytes; and what a reader accepts
 * must hold what it promises: FUZZ_CHECK stops the fuzzer where it does not. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room); /* libFuzzer's */

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

/* A context with a log that reads every message; a failing status must come with a reason and a sentence. */
vd_context *fuzz_open(void);
void        fuzz_close(vd_context *ctx, vd_status status);

/* Mutates a safetensors file so that its header stays one: the length field follows the header. Mostly; some inputs are mutated as bytes. */
size_t fuzz_mutate_tensors(uint8_t *data, size_t size, size_t room, unsigned seed);

/* Writes the input to a file in a folder of this process and returns its path: for readers that take paths. */
const char *fuzz_write(const uint8_t *data, size_t size, const char *name);
const char *fuzz_folder(void);

#endif
