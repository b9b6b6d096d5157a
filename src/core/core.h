/* The context: errors, memory, log, progress. Everything in the library takes it first.
 *
 * Errors. A function that can fail returns vd_status and leaves, in the context, a sentence for people (file, tensor, value, limit,
 * what to do) and a reason: a stable word for programs ("offset-overlap"). The first failure wins until vd_clear_error.
 * Memory. Every allocation of the library goes through vd_alloc, so a host can supply its own allocator and tests can make each one fail.
 */
#ifndef VD_CORE_H
#define VD_CORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "verdit.h"

struct vd_context {
    vd_options options;
    int        threads; /* resolved: >= 1 */
    bool       warned_match; /* a forward has told that options->match lacks measurements: a gate or an audit runs dozens, once is enough */
    vd_status  status;
    char       reason[48];
    char       text[2048];
};

/* Records a failure and returns its status, so that callers write `return vd_fail(...)`. Control bytes in the text are shown as \xHH. */
vd_status vd_fail(vd_context *ctx, vd_status status, const char *reason, const char *format, ...) __attribute__((format(printf, 4, 5)));
void      vd_log(vd_context *ctx, vd_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Tells the host how far a long job is; returns VD_CANCELLED when the host asks to stop. `done` of `total` units of `what`. */
vd_status vd_report_progress(vd_context *ctx, const char *what, int64_t done, int64_t total);

/* Memory. vd_alloc returns NULL with VD_NO_MEMORY recorded (`what` names the thing); zeroed; aligned to 64 bytes. size 0 is legal.
 * vd_free takes NULL. */
void *vd_alloc(vd_context *ctx, int64_t size, const char *what);
void *vd_realloc(vd_context *ctx, void *old, int64_t old_size, int64_t new_size, const char *what);
void  vd_free(vd_context *ctx, void *pointer);
char *vd_copy_string(vd_context *ctx, const char *text);
/* A formatted string in memory of its own. */
char *vd_format(vd_context *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Checked 64-bit arithmetic for sizes from outside: false when the result does not fit. */
static inline bool vd_mul_fits(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool vd_add_fits(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

static inline int64_t vd_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t vd_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
