/* verdit.h: diffusion transformers with numbers that can be checked. */
#ifndef VERDIT_H
#define VERDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VERDIT_VERSION "0.1.0"

/* ---- Status ---- */

/* What a call returns. The values are the exit codes of the command line and never change. */
typedef enum vd_status {
    VD_OK           = 0,
    VD_FAILED       = 1,  /* a gate, a comparison or a verification did not hold */
    VD_BAD_ARGUMENT = 2,  /* the call itself is wrong */
    VD_BAD_FILE     = 3,  /* an input file is malformed, or is not what it should be */
    VD_UNSUPPORTED  = 4,  /* asked for something that cannot be served as asked */
    VD_NO_MEMORY    = 5,  /* needs more memory than there is */
    VD_IO           = 6,  /* reading or writing failed */
    VD_CANCELLED    = 7,  /* the progress callback asked to stop */
    VD_INTERNAL     = 70  /* a fault of this library: please report it */
} vd_status;

const char *vd_status_name(vd_status status);

/* ---- Element types ---- */

typedef enum vd_dtype {
    VD_F32 = 0,
    VD_BF16,
    VD_F16,
    VD_F64,
    VD_I8, VD_U8, VD_I16, VD_U16, VD_I32, VD_U32, VD_I64, VD_U64, VD_BOOL,
    VD_F8_E4M3, VD_F8_E5M2,
    VD_DTYPE_COUNT
} vd_dtype;

const char *vd_dtype_name(vd_dtype type); /* as safetensors spells it: "F32", "BF16", … */
int64_t     vd_dtype_size(vd_dtype type); /* bytes of one element */

/* ---- Context ---- */

typedef struct vd_context vd_context;

typedef enum vd_log_level { VD_LOG_WARNING = 1, VD_LOG_INFO = 2 } vd_log_level;
typedef void vd_log_fn(void *user, vd_log_level level, const char *text);
/* done of total units of `what`; a result other than 0 stops the job, which then returns VD_CANCELLED with nothing half-written. */
typedef int vd_progress_fn(void *user, const char *what, int64_t done, int64_t total);

typedef struct vd_options {
    int             threads;       /* 0 (default): one per CPU that the process may use; else 1..1024. No number changes a byte. */
    const char     *cpu;           /* highest vector level: NULL (default: the best this CPU has), "generic", "avx2", "avx512", "avx512bf16" */
    vd_log_fn      *log;           /* NULL (default): silent. The library never prints. */
    void           *log_user;
    vd_progress_fn *progress;      /* NULL (default): none */
    void           *progress_user;
    void *(*alloc)(void *user, size_t size); /* NULL (default): the C library's. Must return 64-byte aligned memory, or NULL. */
    void (*free)(void *user, void *pointer); /* set both or neither */
    void           *memory_user;
    void           *reserved[8];   /* zero */
} vd_options;

void vd_options_init(vd_options *options);

/* Opens a context. `options` may be NULL. On failure *out, unless NULL, carries the message and must be closed all the same.
 * A context serves one thread at a time; several contexts are independent. */
vd_status vd_open(const vd_options *options, vd_context **out);
void      vd_close(vd_context *ctx); /* NULL is legal */

/* The last failure: a sentence for people, and a stable word for programs. Valid until the next failing call or vd_clear_error. */
const char *vd_error_text(const vd_context *ctx);
const char *vd_error_reason(const vd_context *ctx);
void        vd_clear_error(vd_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
