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

/* A tensor: row-major, the last dimension contiguous, `data` at any alignment. rank 0 is one element. Whoever made it owns name and data. */
#define VD_MAX_RANK 8
typedef struct vd_tensor {
    const char *name;
    vd_dtype    type;
    int         rank;
    int64_t     shape[VD_MAX_RANK];
    void       *data;
} vd_tensor;

int64_t vd_tensor_elements(const vd_tensor *tensor); /* product of the shape */
int64_t vd_tensor_bytes(const vd_tensor *tensor);

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

/* ---- Models ---- */

typedef struct vd_model vd_model;

/* Opens a model folder: a pipeline folder (with transformer/), a component's own folder, or one .safetensors beside its config.json.
 * Files are mapped; no weights are read. The folder must not change while the model is open. *out is NULL on failure. */
vd_status vd_model_open(vd_context *ctx, const char *path, vd_model **out);
void      vd_model_close(vd_context *ctx, vd_model *model); /* NULL is legal */

typedef enum vd_policy {
    VD_POLICY_BF16 = 0, /* as published: every node rounds to bf16 */
    VD_POLICY_F32,      /* the residual stream, modulation, gates, norms, embedders and head in float32 around bf16 block products */
    VD_POLICY_F32_SITU, /* as F32; SiTU in float32 with one rounding, the text embedder's linears in bf16 */
    VD_POLICY_COUNT
} vd_policy;

typedef enum vd_arith {
    VD_ARITH_TC16 = 0, /* bf16 products in the tensor core's order: torch's bytes on a Hopper GPU */
    VD_ARITH_FMA,      /* bf16 products in an order that CPUs run fast */
    VD_ARITH_COUNT
} vd_arith;

typedef enum vd_match {
    VD_MATCH_NONE = 0,        /* rows=free: no row depends on how many rows there are */
    VD_MATCH_TORCH_2_11_H200, /* few-row linears split K where cuBLAS does, so that a whole run equals torch's */
    VD_MATCH_COUNT
} vd_match;

const char *vd_policy_name(vd_policy policy); /* "bf16", "f32", "f32-situ" */
const char *vd_arith_name(vd_arith arith);    /* "tc16", "fma" */
const char *vd_match_name(vd_match match);    /* "none", "torch2.11-h200" */
bool vd_policy_find(const char *name, vd_policy *out);
bool vd_arith_find(const char *name, vd_arith *out);
bool vd_match_find(const char *name, vd_match *out);

/* ---- Forward ---- */

/* One request: its inputs and its place in the network. Samples of one call never touch each other's bytes. */
typedef struct vd_sample {
    /* Named tensors. MOSS-Image: `latents` [C, h, w] F32, `text` [T, text_dim] BF16 (rounded when F32), `t` [1] F32 = 1000·sigma. Any
     * node's value may be given under its node name, in the policy's type or exactly representable in it; it is then not computed.
     * `x` stands for the rows entering the first node of the range. */
    const vd_tensor *inputs;
    int              input_count;
    int64_t          h, w, text_rows;  /* needed only when latents or text are not given; 0 otherwise */
    const int64_t   *skip;             /* blocks left out, each in [0, blocks), no block twice */
    int              skip_count;
    const int64_t   *rows;             /* NULL: all. Else only these joint rows leave the last block of the range (keys come from all rows) */
    int64_t          row_count;
} vd_sample;

/* A node's value, as soon as it is there; `value` is valid during the call. A result other than 0 stops the forward (VD_CANCELLED). */
typedef int vd_tap_fn(void *user, int sample, const vd_tensor *value);

typedef struct vd_forward_options {
    vd_policy   policy;
    vd_arith    arith;
    vd_match    match;
    const char *from, *to;       /* node names, both included; NULL: the first, the last */
    const char *taps;            /* comma-separated node names; "*" stands for any run of characters: "x.*,b20.*". NULL: only `to` */
    vd_tap_fn  *tap;             /* receives the tapped nodes and always the last node of the range */
    void       *tap_user;
    void       *reserved[4];
} vd_forward_options;

void vd_forward_options_init(vd_forward_options *options); /* bf16, tc16, no match, whole */

/* Runs the range of nodes on every sample. Node names: docs/moss_image.md. Sizes and inputs are checked, and memory is planned and taken,
 * before any work starts. The numbers do not depend on threads, level, the other samples or the taps. */
vd_status vd_forward(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count);

/* What a forward with these sizes would need, in bytes. */
typedef struct vd_memory_plan {
    int64_t weights;     /* mapped, not allocated */
    int64_t activations; /* streams and block activations */
    int64_t scratch;     /* packed weights and keys, per worker */
    int64_t total;
} vd_memory_plan;

vd_status vd_plan_memory(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count,
                         vd_memory_plan *plan);

/* ---- Tensor files ---- */

/* Weights and tensors on disk, in the safetensors format. The reader is made for hostile files: everything that a header says is checked
 * before it is believed (docs/files.md lists what is refused and with which reason), and opening reads headers only.
 *
 * Caveat: the file is mapped. If another program shortens it while it is open, reading a tensor ends the process with SIGBUS; a library
 * cannot prevent that. Replacing a file by renaming another over it (as this library writes) is safe. */
typedef struct vd_tensors vd_tensors;

/* `path`: a safetensors file; an index (…safetensors.index.json); or a folder that holds one of either under its usual name
 * (diffusion_pytorch_model or model). Tensors, names, paths and metadata live until close; data are read-only, writing to them ends the
 * process. On failure *out is NULL, and the status VD_BAD_FILE (malformed, or not what it should be), VD_UNSUPPORTED (a dtype that nothing
 * here computes with), VD_NO_MEMORY (address space, too) or VD_IO. */
vd_status        vd_tensors_open(vd_context *ctx, const char *path, vd_tensors **out);
void             vd_tensors_close(vd_context *ctx, vd_tensors *tensors); /* NULL is legal */
int64_t          vd_tensors_count(const vd_tensors *tensors);
const vd_tensor *vd_tensors_get(const vd_tensors *tensors, int64_t index);        /* names ascending; NULL outside 0..count-1 */
const vd_tensor *vd_tensors_find(const vd_tensors *tensors, const char *name);    /* NULL if there is none; logarithmic time */
const char      *vd_tensors_metadata(const vd_tensors *tensors, const char *key); /* of the first file: the text for key, or NULL */
int64_t          vd_tensors_metadata_count(const vd_tensors *tensors);
const char      *vd_tensors_metadata_key(const vd_tensors *tensors, int64_t index);
int64_t          vd_tensors_file_count(const vd_tensors *tensors);
const char      *vd_tensors_file(const vd_tensors *tensors, int64_t index);       /* path of one file, in the order of their names */

/* Gives `bytes` bytes of `tensor`, from byte `first` on. A status other than VD_OK stops the writing and is passed on;
 * progress is the filler's to report. */
typedef vd_status vd_fill_fn(void *user, vd_context *ctx, const vd_tensor *tensor, int64_t first, void *to, int64_t bytes);

/* Writes a safetensors file: names ascending, header padded with spaces to 8 bytes, equal bytes for equal input. `metadata`: key, value,
 * key, value, …, NULL; or NULL. A tensor whose data is NULL is asked of `fill` in pieces of at most 4 MiB, so that a file larger than
 * memory can be written. The file appears whole or not at all, and never through a link. VD_BAD_ARGUMENT when the reader would refuse
 * the file; VD_IO when there is no room, or `path` is no place for a file. */
vd_status vd_tensors_write(vd_context *ctx, const char *path, const vd_tensor *tensors, int64_t count, const char *const *metadata,
                           vd_fill_fn *fill, void *user);

/* ---- Synthetic models ---- */

/* Models whose every weight is a function of its name, an index and a seed: the same bytes on any machine, at any size (docs/synthetic.md).
 * Their numbers are for bytes and speed, not for pictures. */
typedef struct vd_synth_options {
    const char        *shape;  /* "tiny" (default: 0.3 M parameters), "small" (3.9 M, head width 128), "moss" (the published sizes, 5.1 G) */
    uint64_t           seed;   /* 1 (default) */
    const char *const *set;    /* NULL (default), or "key=value" changes of config.json's whole numbers, ended by NULL */
    void              *reserved[8];
} vd_synth_options;

void vd_synth_options_init(vd_synth_options *options);

/* Makes the folder `dir` (its parent must exist) with config.json and diffusion_pytorch_model.safetensors. Streams: 10 GB take no memory.
 * A folder that already holds a model is left as it is (VD_IO); on any failure nothing stays behind. */
vd_status vd_synth_write_model(vd_context *ctx, const char *dir, const vd_synth_options *options);

/* Writes a request for that shape: `latents` [C, h, w] F32, `text` [text_rows, text_dim] BF16, `t` [1] F32. */
vd_status vd_synth_write_inputs(vd_context *ctx, const char *path, const vd_synth_options *options, int64_t h, int64_t w, int64_t text_rows, float t);

/* ---- Gates ---- */

/* Is this the model, and how far from float32 is it? A case (docs/cases.md) holds one step of one branch, recorded from torch: what enters
 * every node, what float32 makes of exactly that, and how far honest runs are from it. vd_gate runs every node alone on the recorded input
 * and judges it; docs/gates.md explains statistics and limits, and which planted faults they catch.
 *
 * Three things are asked of each node: the second run, on one thread more, must repeat the first byte for byte; nothing may be infinite or
 * NaN; the cosine error and the worst row may be at most 1.25 times the largest of the case's K runs (a warning begins at 1.10 times).
 * Also told, without deciding: the share of twice the wider of torch's two CPU runs, and whether the bytes equal those of a run on a GPU.
 * A node that cannot be judged is an error, never a pass. */

typedef enum vd_verdict { VD_VERDICT_PASS = 0, VD_VERDICT_WARN, VD_VERDICT_FAIL } vd_verdict;

const char *vd_verdict_name(vd_verdict verdict); /* "pass", "warn", "fail" */

/* A candidate y against float32's f, rows × columns; e = y − f. Infinite where y is not finite. */
typedef struct vd_distance {
    double  cosine;             /* 1 − ⟨y,f⟩ / (‖y‖‖f‖), in double */
    double  worst_row;          /* the largest ‖e_i‖ / ‖f_i‖, and its row */
    int64_t worst_row_index;
    double  l2;                 /* ‖e‖ / ‖f‖ */
    double  gain;               /* ⟨y,f⟩ / ⟨f,f⟩ */
    double  bias;               /* mean of e over the root mean square of f */
    double  largest;            /* the largest |e|, its place and both values */
    int64_t largest_row, largest_col;
    double  largest_value, largest_reference;
    int64_t nonfinite;          /* elements of y that are infinite or NaN; the first one's place, or -1 */
    int64_t nonfinite_row, nonfinite_col;
    int64_t zero_rows;          /* rows where f is all zeros and y is not: each fails the gate */
} vd_distance;

/* Two arrays element by element, in units of the last place of their type. */
typedef struct vd_ulps {
    int64_t elements, differ;   /* elements whose bytes differ: −0 and +0 do, NaN always does */
    int64_t rows, cols;         /* rows and columns that hold such an element */
    int64_t largest;            /* the largest distance, and its place */
    int64_t largest_row, largest_col;
    int64_t first_row, first_col; /* the first difference, or -1 */
    double  mean;               /* signed mean distance over all elements */
    int64_t histogram[9];       /* ≤ −8, −7…−4, −3…−2, −1, 0, 1, 2…3, 4…7, ≥ 8 */
} vd_ulps;

/* One statistic of one node beside its limits. Ratios of 0 to 0 are 0. */
typedef struct vd_gate_statistic {
    double      value;
    double      reference, limit, warn; /* largest of the K runs, but at least float32's own level; 1.25 and 1.10 times it */
    const char *reference_run;          /* which run that was; "float32": the level */
    double      ratio;                  /* value / reference: fails above 1.25 */
    double      torch, torch_limit;     /* wider of torch's two CPU runs; twice that */
    const char *torch_run;
    double      torch_share;            /* value / torch_limit */
    vd_verdict  verdict;
} vd_gate_statistic;

typedef struct vd_gate_node {
    const char       *name;
    int64_t           rows, cols;
    vd_dtype          type;           /* of the candidate's values */
    vd_verdict        verdict;
    vd_gate_statistic cosine, worst_row;
    vd_distance       distance;
    int64_t           repeat_differs; /* elements that differ between the first and the second run */
    const char       *bytes_run;      /* the recorded run whose bytes are compared; NULL: none holds this node */
    int64_t           bytes_differ;   /* elements whose bytes differ from it; -1: none recorded */
    const float      *row_errors;     /* [rows] ‖e_i‖ / ‖f_i‖ */
    const float      *row_reference;  /* [rows] the largest of the K runs in that row */
    const char       *why;            /* what did not hold, or what warns; "" if all held */
    double            seconds;        /* first run */
} vd_gate_node;

/* The whole step, from latents, text and t to the velocity, beside torch's own runs. Limits are one-sided: being nearer is always allowed.
 * Reported, not gated, for in a long chain honest runs part; but a second run that differs fails. */
typedef struct vd_gate_step {
    vd_distance distance;
    double      l2_reference, worst_row_reference; /* largest of the K runs */
    double      l2_ratio, worst_row_ratio;         /* W holds up to 1.10 and 1.25 */
    double      quantile[5], quantile_ratio[5];    /* sorted row errors at 0.5, 0.8, 0.9, 0.99, 1; W holds up to 1.15 */
    bool        within;                            /* W holds */
    int64_t     repeat_differs, bytes_differ;      /* as for a node */
    const char *bytes_run;
    double      seconds;
} vd_gate_step;

/* A reference run of the case. */
typedef struct vd_gate_run {
    const char *name, *kind, *what, *device;
    bool        limit;       /* it is one of the K runs */
    double      step_l2, step_cosine, step_worst_row;
} vd_gate_run;

/* One operation of the first failing node, repeated from the candidate's own inputs by the library's unchanged kernels. */
typedef struct vd_gate_op {
    const char *node;        /* the operation's node name: "b20.q_rot" */
    const char *what;        /* "rotary of q", … */
    vd_ulps     ulps;        /* candidate against the contract's result */
} vd_gate_op;

typedef struct vd_gate_fault {
    const char *name;        /* as in --plant */
    const char *what;        /* what is wrong */
    const char *place;       /* where it can be planted: "block", "text block", "any node", "mod", …; the middle block unless said */
    const char *how;         /* how it is planted */
} vd_gate_fault;

/* The catalogue of faults that vd_gate can plant, from 0 on; NULL behind the last. Static. */
const vd_gate_fault *vd_gate_list_fault(int index);

/* A name and a value, both text. */
typedef struct vd_gate_fact {
    const char *name, *value;
} vd_gate_fact;

typedef struct vd_gate_result {
    vd_verdict           verdict;
    const char          *summary;      /* one sentence */
    const char          *case_path, *model_path, *reproduce; /* the command that repeats this gate */
    vd_policy            policy;
    vd_arith             arith;
    vd_match             match;
    int64_t              latent_height, latent_width; /* their product is the number of image rows; in joint rows they come first */
    int64_t              node_count;
    const vd_gate_node  *nodes;        /* execution order */
    int64_t              passed, warned, failed;
    int64_t              limit_runs;   /* K */
    int64_t              run_count;
    const vd_gate_run   *runs;
    vd_gate_step         step;
    int64_t              first_failed; /* index of the first failing node, or -1 */
    int64_t              channel_count;
    const float         *channel_errors; /* [channel_count] of that node, ‖e_c‖ / ‖y_c‖ against the true model's output; NULL when none failed */
    int64_t              op_count;     /* operations of that node, in execution order; 0 when none failed */
    const vd_gate_op    *ops;
    int64_t              cause_count;
    const char *const   *causes;       /* what failed, where, and the likely cause: sentences, most telling first */
    const vd_gate_fault *planted;      /* NULL: none */
    const char          *planted_at;   /* the gate node where it must show */
    bool                 caught;       /* that node is the first that failed, and holds without the fault */
    int64_t              fact_count;   /* sizes, constants as the model uses them, versions, hashes of the case's files */
    const vd_gate_fact  *facts;
    int64_t              weight_count; /* weight files, and how each was checked: "hash", "size" */
    const vd_gate_fact  *weights;
    double               seconds;
} vd_gate_result;

typedef struct vd_gate_options {
    int         policy;    /* -1 (default): the case's. Another one is refused: its rounding points need references of their own. */
    vd_arith    arith;     /* VD_ARITH_TC16 (default) */
    vd_match    match;     /* VD_MATCH_NONE (default) */
    bool        hash;      /* also hash weight files above 256 MB; smaller ones always are, sizes always compared */
    bool        node_only; /* leave the whole step out */
    const char *plant;     /* "FAULT" or "FAULT@PLACE" (a node, or "b20" for block 20); NULL (default): none */
    const char *html_path; /* one self-contained HTML file; NULL (default): none */
    const char *json_path; /* the same as JSON (docs/report.schema.json); NULL (default): none */
    void       *reserved[8];
} vd_gate_options;

void vd_gate_options_init(vd_gate_options *options);

/* Gates a case. `model_path` NULL: where the case says (relative to its folder). Returns VD_OK when every node held, VD_FAILED when not; in
 * both cases *out is the result, and reports are written. On any other status *out is NULL and nothing is written. */
vd_status vd_gate(vd_context *ctx, const char *case_path, const char *model_path, const vd_gate_options *options, vd_gate_result **out);
void      vd_gate_result_free(vd_context *ctx, vd_gate_result *result); /* NULL is legal */

/* The result's JSON text, as json_path writes it; give it back to vd_gate_text_free. NULL on failure. */
char *vd_gate_result_json(vd_context *ctx, const vd_gate_result *result);
void  vd_gate_text_free(vd_context *ctx, char *text);

/* ---- Receipts ---- */

/* A run from files to files that can be checked later: vd_run writes each sample's tensors and, beside them, a receipt (JSON,
 * docs/receipt.schema.json) that names the model, its weights, the contracts, the choices made, and the hashes of what went in and came
 * out. vd_verify repeats it on any machine, or audits what the output file lets it recompute from a few rows. */
typedef struct vd_run_options {
    const char        *model;          /* a folder, as for vd_model_open */
    const char *const *inputs;         /* [count] safetensors: latents, text, t, x, or nodes by name; other names are refused */
    const char *const *outputs;        /* [count] safetensors to write: the tapped nodes and the last one */
    const char *const *receipts;       /* [count], or NULL (default): the output's path and ".receipt.json" */
    int                count;          /* samples of one batch; each gets the bytes that it would get alone, and a receipt of its own */
    vd_forward_options forward;        /* `tap` is not used */
    int64_t            h, w, text_rows;/* 0 (default): from latents and text */
    const int64_t     *skip;
    int                skip_count;
    const int64_t     *rows;           /* as in vd_sample */
    int64_t            row_count;
    int                repeats;        /* 1 (default); more: run again and compare every byte, VD_FAILED if one differs */
    bool               hash_weights;   /* SHA-256 of every weight file in the receipt; else of files up to 256 MB only */
    const char        *command;        /* NULL (default), or the command line, to be quoted in the receipt */
    void              *reserved[8];
} vd_run_options;

/* Whether `path` may be written by something that reads the files `reads` ([count]): a file could be made there, and it is none of them, under
 * whatever name. VD_IO with reason output-path otherwise. vd_run asks this of every output and receipt before any work. */
vd_status vd_output_check(vd_context *ctx, const char *path, const char *const *reads, int64_t count);

void      vd_run_options_init(vd_run_options *options);
vd_status vd_run(vd_context *ctx, const vd_run_options *options);

/* One thing that vd_verify looked at. */
typedef struct vd_check {
    char *what;   /* "output velocity", "weights diffusion_pytorch_model.safetensors", … */
    bool  held;
    char *text;   /* what was found */
} vd_check;

typedef struct vd_verify_options {
    const char *model, *input, *output; /* NULL (default): where the receipt says */
    bool        audit;                  /* recompute only what the output file's own rows lead to, and only the receipt's sampled rows */
    bool        hash_weights;           /* also hash weight files above 256 MB, if the receipt has their hashes */
    void       *reserved[8];
} vd_verify_options;

typedef struct vd_verify_result {
    bool      held;
    int64_t   check_count;
    vd_check *checks;
} vd_verify_result;

void vd_verify_options_init(vd_verify_options *options);

/* VD_OK: everything held; VD_FAILED: something did not (both set *out). Any other status: it could not be judged, *out is NULL.
 * The output file need not exist for a repetition (it is then not looked at); an audit needs it. */
vd_status vd_verify(vd_context *ctx, const char *receipt, const vd_verify_options *options, vd_verify_result **out);
void      vd_verify_result_free(vd_context *ctx, vd_verify_result *result); /* NULL is legal */

/* SHA-256 of a file, 64 hex digits and a zero. */
vd_status vd_hash_file(vd_context *ctx, const char *path, char digits[65]);

/* ---- Operations ---- */

/* One operation alone, under a named contract: what the model's forward calls, for checking other backends. Inputs by name, row-major:
 *   linear          x [M,K], w [N,K], optional b [N]              → y [M,N]
 *   attention       q [H,M,d], k, v [H,S,d]                       → o [H,M,d]
 *   rms_norm        x [M,N], w [N]                                → y [M,N]
 *   norm_modulate   x [M,N], w, scale, shift [N]                  → y [M,N]
 *   rotary          x [M,H,d], cos, sin [M,d]                     → y [M,H,d]
 *   situ            u, g (equal shapes)                           → y
 *   gated_residual  x, y [M,N], optional gate [N]                 → o [M,N]
 *   silu, tanh, sigmoid, exp, softplus, ex2, rsq, rcp, sin, cos   x → y
 *   sinusoid        t [T] F32                                     → e [T,dim] F32
 * Every tensor is F32 or BF16. Where several inputs are the data (x; q, k, v; u, g), they have one type. */
typedef struct vd_op_options {
    const char *contract;  /* NULL (default): tc16/chain, attn/k128, … for BF16 data, fma/fold512, attn/k128/f32 for F32; "tc16/split4": 4 slices */
    const char *out;       /* "bf16", "f32"; NULL (default): the data's type */
    const char *round;     /* type after each inner operation of norm_modulate, rotary, situ: "bf16", "f32"; NULL (default): the data's type */
    const char *form;      /* rms_norm: "cast-before-weight" (default) or "fused", which fixes the order of the sum and the roundings */
    double      eps;       /* of the norms, taken as it is: 0 <= eps < 1; vd_op_options_init sets 1e-6 */
    const char *kind;      /* sinusoid: "moss" (default) or "h3" */
    int64_t     dim;       /* sinusoid: 0 (default): 256 */
    void       *reserved[8];
} vd_op_options;

typedef struct vd_op {
    const char *name, *inputs, *output; /* "x [M,K], w [N,K], optional b [N]", "y [M,N]" */
    const char *contracts;              /* what `contract` may name, comma-separated */
} vd_op;

const vd_op *vd_op_list(int *count); /* static */
void         vd_op_options_init(vd_op_options *options);

/* Checks a call and sets out's name, type, rank and shape (data NULL), and the contract's id with its version. */
vd_status vd_op_plan(vd_context *ctx, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count, vd_tensor *out, char contract[32]);
/* The same, then computes; out->data points to vd_tensor_bytes of what vd_op_plan set. */
vd_status vd_op_run(vd_context *ctx, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count, vd_tensor *out, char contract[32]);

/* Makes the folder `dir` (which must not exist): for every operation and contract inputs and the right bytes, corner cases among them, with
 * manifest.json and a README that says how to use them against another backend. The same bytes everywhere; under 5 MB. */
vd_status vd_op_write_kit(vd_context *ctx, const char *dir);

/* ---- Contracts ---- */

/* What the library promises of every operation, and whether this machine keeps it. Each contract is checked on the vector level in use (the
 * options' `cpu`): built-in inputs, corner cases among them, against the definition in plain C, byte for byte; recorded hashes where the
 * bytes are torch's own; and for sums the order read back from the kernel itself by placing large +, large - and small values in turn, so
 * that a kernel which adds in another order is caught whatever its data. docs/contract.md is the text of the promises. */
typedef struct vd_contract_item {
    const char *id;      /* "tc16/chain@1" */
    const char *promise; /* one sentence */
    const char *level;   /* whose code was checked: "avx2", …; "portable": code that all levels share */
    bool        passed;
    const char *detail;  /* what was compared and read back; or the first thing that did not hold */
    double      seconds;
} vd_contract_item;

/* Receives each item as it is done; its strings are valid during the call. A result other than 0 stops (VD_CANCELLED). */
typedef int vd_contract_fn(void *user, const vd_contract_item *item);

/* Checks the contract `id` ("tc16/chain", with or without its version), or all of them (NULL), in a fixed order; about a second in all.
 * VD_FAILED: all were checked, and at least one does not hold. VD_BAD_ARGUMENT: no such contract. */
vd_status vd_contract_check(vd_context *ctx, const char *id, vd_contract_fn *report, void *user);

/* ---- Bench ---- */

/* How fast this machine runs the operations at the published model's sizes: random data, the context's level and threads. */
typedef struct vd_bench_row {
    const char *operation; /* "linear", "attention", "norm_modulate", … */
    const char *contract;  /* "tc16/chain@1", …; "" where there is one meaning only */
    const char *shape;     /* "64 x 3072 -> 3072" */
    double      seconds;   /* median of `repeats` */
    int         repeats;
    double      gflops;    /* billion multiplications and additions per second; 0 for row operations */
    double      share;     /* gflops over the machine's fp32 multiply-add peak of one core, measured in the same call, times threads; 0 likewise */
    double      gbytes;    /* billion bytes read and written per second; 0 for linear and attention */
} vd_bench_row;

/* A result other than 0 stops the bench (VD_CANCELLED). */
typedef int vd_bench_fn(void *user, const vd_bench_row *row);

/* `only`: one operation by name, or NULL for all. `seconds`: how long each row may take, about; 0: 0.5. *peak receives the peak in GFLOP/s of one core, *level the vector level that ran (either
 * may be NULL). */
vd_status vd_bench(vd_context *ctx, const char *only, double seconds, vd_bench_fn *row, void *user, double *peak, const char **level);

#ifdef __cplusplus
}
#endif
#endif
