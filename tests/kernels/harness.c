#define _GNU_SOURCE
#include "kernels/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Random numbers ---- */

uint64_t h_next(h_random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t h_range(h_random *r, int64_t low, int64_t high)
{
    return low + (int64_t)(h_next(r) % (uint64_t)(high - low + 1));
}

bool h_chance(h_random *r, int one_in)
{
    return h_next(r) % (uint64_t)one_in == 0;
}

float h_normal(h_random *r)
{
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(int32_t)(h_next(r) >> 32) * 0x1p-31f;
    return sum * 0.8660254f;
}

/* ---- Data ---- */

static const char *const kind_names[H_KINDS] = {"normal",   "small", "wide", "massive", "cancel", "constant",
                                                "sparse",   "tiny",  "huge", "bits",    "special"};

const char *h_kind_name(h_kind kind)
{
    return (unsigned)kind < H_KINDS ? kind_names[kind] : "?";
}

static float draw_special(h_random *r)
{
    static const uint32_t bits[] = {0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0x00000000, 0x00000001, 0x80010000,
                                    0x007F0000, 0x00800000, 0x80800000, 0x7F7F0000, 0xFF7F0000, 0x7F7FFFFF, 0x3F800000, 0x3F7F0000, 0x3FFF0000};
    return vd_float(bits[h_next(r) % (sizeof bits / sizeof bits[0])]);
}

static float draw(h_random *r, h_kind kind, int64_t column, float previous, float constant)
{
    switch (kind) {
    case H_SMALL: return 0.02f * h_normal(r);
    case H_WIDE: return ldexpf(h_normal(r), (int)h_range(r, -60, 50));
    case H_MASSIVE: return (column % 40 == 7 ? 300.0f : 1.0f) * h_normal(r);
    case H_CANCEL: return column & 1 ? -previous * (1.0f + 0.01f * h_normal(r)) : h_normal(r);
    case H_CONSTANT: return constant;
    case H_SPARSE: return h_chance(r, 8) ? h_normal(r) : h_chance(r, 2) ? 0.0f : -0.0f;
    case H_TINY: return ldexpf(h_normal(r), (int)h_range(r, -135, -118));
    case H_HUGE: return ldexpf(h_normal(r), (int)h_range(r, 50, 127));
    case H_BITS: return vd_float((uint32_t)h_next(r));
    case H_SPECIAL: return h_chance(r, 50) ? draw_special(r) : h_normal(r);
    default: return h_normal(r);
    }
}

void h_fill(h_random *r, h_kind kind, void *p, vd_dtype type, int64_t rows, int64_t columns, int64_t stride)
{
    const int64_t total = rows ? (rows - 1) * stride + columns : 0;
    float         previous = 0, constant = 0;
    for (int64_t i = 0; i < total; i++) {
        const int64_t column = i % stride;
        if (column == 0)
            constant = h_chance(r, 2) ? 1.9921875f : h_normal(r);
        float x = column < columns ? draw(r, kind, column, previous, constant) : (float)NAN;
        previous = x;
        if (type == VD_BF16) {
            uint16_t b = vd_to_bf16(x);
            if (kind == H_BITS && column < columns)
                b = (uint16_t)h_next(r); /* NaN payloads of every kind */
            memcpy((char *)p + 2 * i, &b, 2);
        } else {
            memcpy((char *)p + 4 * i, &x, 4);
        }
    }
}

int64_t h_span(vd_dtype type, int64_t rows, int64_t columns, int64_t stride)
{
    return rows ? ((rows - 1) * stride + columns) * vd_dtype_size(type) : 0;
}

/* ---- Buffers ---- */

static h_buffer *add_buffer(h_run *run, int64_t size, int64_t alignment)
{
    const int64_t page = sysconf(_SC_PAGESIZE), room = (size + 128 + page - 1) / page * page;
    if (run->count == (int)(sizeof run->buffers / sizeof run->buffers[0]))
        abort();
    h_buffer *b = &run->buffers[run->count++];
    *b          = (h_buffer){.map_size = room + 2 * page, .size = size};
    b->map      = mmap(NULL, (size_t)b->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->map == MAP_FAILED)
        abort();
    memset(b->map, 0xA5, (size_t)b->map_size);
    mprotect(b->map, (size_t)page, PROT_NONE);
    mprotect(b->map + page + room, (size_t)page, PROT_NONE);
    /* Against the page behind as closely as the alignment allows; for one in four against the page before. */
    const uintptr_t end = (uintptr_t)(b->map + page + room) - (uintptr_t)size;
    b->data             = (unsigned char *)(end & ~(uintptr_t)(alignment - 1));
    if (h_chance(&run->random, 4))
        b->data = b->map + page + (alignment < 64 && size + alignment <= room ? alignment : 0);
    return b;
}

void *h_input(h_run *run, h_kind kind, vd_dtype type, int64_t rows, int64_t columns, int64_t stride, int64_t alignment)
{
    h_buffer *b = add_buffer(run, h_span(type, rows, columns, stride), alignment);
    h_fill(&run->random, kind, b->data, type, rows, columns, stride);
    b->input = true;
    b->copy  = malloc((size_t)b->size + 1);
    memcpy(b->copy, b->data, (size_t)b->size);
    return b->data;
}

void *h_output(h_run *run, int64_t size, int64_t alignment)
{
    h_buffer *b = add_buffer(run, size, alignment);
    memset(b->data, 0xB7, (size_t)size);
    return b->data;
}

void *h_copy(h_run *run, const void *from, int64_t size, int64_t alignment)
{
    h_buffer *b = add_buffer(run, size, alignment);
    memcpy(b->data, from, (size_t)size);
    return b->data;
}

vd_exec h_exec(h_run *run, int threads, int64_t scratch)
{
    h_buffer *b = add_buffer(run, scratch, 64);
    for (int64_t i = 0; i < scratch; i++)
        b->data[i] = (unsigned char)(i % 3 ? 0xFF : h_next(&run->random)); /* NaN, mostly */
    return (vd_exec){.threads = threads, .scratch = b->data, .scratch_bytes = scratch};
}

/* ---- Cases ---- */

void h_begin(h_run *run)
{
    run->seed         = run->random.state;
    run->what[0]      = 0;
    run->cases++;
}

static void report(h_run *run, const char *text)
{
    run->failures++;
    if (!run->quiet && run->failures <= 5)
        fprintf(stderr, "%s on %s, case %#llx: %s\n    %s\n", run->name, run->level->level, (unsigned long long)run->seed, text, run->what);
}

void h_same(h_run *run, const void *expected, const void *got, int64_t size, vd_dtype type)
{
    if (memcmp(expected, got, (size_t)size) == 0)
        return;
    const int64_t width = vd_dtype_size(type);
    int64_t       first = -1, wrong = 0;
    for (int64_t i = 0; i * width < size; i++)
        if (memcmp((const char *)expected + i * width, (const char *)got + i * width, (size_t)width) != 0) {
            first = first < 0 ? i : first;
            wrong++;
        }
    uint32_t a = 0, b = 0;
    memcpy(&a, (const char *)expected + first * width, (size_t)width);
    memcpy(&b, (const char *)got + first * width, (size_t)width);
    char text[160];
    snprintf(text, sizeof text, "%lld of %lld elements differ, the first at %lld: %#x instead of %#x", (long long)wrong, (long long)(size / width),
             (long long)first, b, a);
    report(run, text);
}

/* Everything between the two protected pages but the data itself is still the guard's pattern. */
static bool guards_hold(const h_buffer *b)
{
    const int64_t        page = sysconf(_SC_PAGESIZE);
    const unsigned char *end = b->map + b->map_size - page;
    for (const unsigned char *p = b->map + page; p < end; p++) {
        if (p == b->data)
            p += b->size;
        if (p < end && *p != 0xA5)
            return false;
    }
    return true;
}

void h_end(h_run *run)
{
    for (int i = 0; i < run->count; i++) {
        h_buffer *b = &run->buffers[i];
        if (!guards_hold(b))
            report(run, "wrote outside a buffer");
        if (b->input && memcmp(b->copy, b->data, (size_t)b->size) != 0)
            report(run, "wrote to an input");
        munmap(b->map, (size_t)b->map_size);
        free(b->copy);
    }
    run->count = 0;
}

static int64_t environment(const char *name, int64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 0) : fallback;
}

/* The definition is slow, under sanitizers ten times so: there a quarter of the cases must do. */
#if defined(__SANITIZE_ADDRESS__)
#define SLOW 4
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLOW 4
#endif
#endif
#ifndef SLOW
#define SLOW 1
#endif

static void run_cases(h_run *run, h_case *test, int64_t cases)
{
    cases = (cases + SLOW - 1) / SLOW;
    for (int64_t i = 0; i < cases; i++) {
        h_begin(run);
        test(run);
        h_end(run);
    }
}

int64_t h_levels(const char *name, size_t offset, h_case *test, int64_t cases)
{
    vd_kernels generic, table;
    int64_t    failures = 0;
    void (*before)(void), (*now)(void);
    vd_kernels_init_cpu(&generic, VD_CPU_GENERIC);
    memcpy(&before, (const char *)&generic + offset, sizeof before);
    for (int level = VD_CPU_AVX2; level < VD_CPU_LEVELS; level++) {
        if (level > (int)vd_cpu_best_level()) {
            printf("%s: %s not run: this CPU lacks it\n", name, vd_cpu_level_name((vd_cpu_level)level));
            continue;
        }
        vd_kernels_init_cpu(&table, (vd_cpu_level)level);
        memcpy(&now, (const char *)&table + offset, sizeof now);
        if (memcmp(&before, &now, sizeof now) == 0) {
            printf("%s: %s has no code of its own\n", name, vd_cpu_level_name((vd_cpu_level)level));
            continue;
        }
        before    = now;
        h_run run = {.name = name, .generic = &generic, .level = &table, .random = {(uint64_t)environment("VERDIT_TEST_SEED", 1)}};
        run_cases(&run, test, cases * environment("VERDIT_TEST_SCALE", 1));
        printf("%s: %s: %lld of %lld cases fail\n", name, table.level, (long long)run.failures, (long long)run.cases);
        failures += run.failures;
    }
    return failures;
}

int64_t h_planted(const char *name, const vd_kernels *planted, h_case *test, int64_t cases)
{
    vd_kernels generic;
    vd_kernels_init_cpu(&generic, VD_CPU_GENERIC);
    h_run run = {.name = name, .generic = &generic, .level = planted, .random = {1}, .quiet = true};
    run_cases(&run, test, cases);
    return run.failures;
}
