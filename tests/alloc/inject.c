#include "inject.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

static _Thread_local struct {
    bool       armed, for_good;
    inject_way way;
    int64_t    calls, held, fail_at;
} now;

/* Counts an allocation; true when it must fail. */
static bool must_fail(inject_way way)
{
    if (!now.armed || now.way != way)
        return false;
    now.calls++;
    return now.fail_at && (now.for_good ? now.calls >= now.fail_at : now.calls == now.fail_at);
}

static void *hold(inject_way way, void *pointer)
{
    if (pointer && now.armed && now.way == way)
        now.held++;
    return pointer;
}

static void release(inject_way way, const void *pointer)
{
    if (pointer && now.armed && now.way == way)
        now.held--;
}

void inject_arm(inject_way way, int64_t fail_at, bool for_good)
{
    now.way      = way;
    now.calls    = now.held = 0;
    now.fail_at  = fail_at;
    now.for_good = for_good;
    now.armed    = true;
}

void inject_disarm(int64_t *calls, int64_t *held)
{
    now.armed = false;
    *calls    = now.calls;
    *held     = now.held;
}

static void *context_alloc(void *user, size_t size)
{
    (void)user;
    return must_fail(INJECT_CONTEXT) ? NULL : hold(INJECT_CONTEXT, aligned_alloc(64, (size + 63) / 64 * 64));
}

static void context_free(void *user, void *pointer)
{
    (void)user;
    release(INJECT_CONTEXT, pointer);
    free(pointer);
}

vd_options inject_options(inject_way way)
{
    vd_options options;
    vd_options_init(&options);
    options.threads = 1;
    if (way == INJECT_CONTEXT) {
        options.alloc = context_alloc;
        options.free  = context_free;
    }
    return options;
}

#ifdef INJECT_REPLACES_MALLOC
bool inject_can(inject_way way) { return way == INJECT_CONTEXT || way == INJECT_PROCESS; }

/* glibc's own names for what is replaced here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void  __libc_free(void *pointer);

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) { return must_fail(INJECT_PROCESS) ? refuse() : hold(INJECT_PROCESS, __libc_malloc(size)); }

void *calloc(size_t count, size_t size) { return must_fail(INJECT_PROCESS) ? refuse() : hold(INJECT_PROCESS, __libc_calloc(count, size)); }

void *aligned_alloc(size_t alignment, size_t size)
{
    return must_fail(INJECT_PROCESS) ? refuse() : hold(INJECT_PROCESS, __libc_memalign(alignment, size));
}

void *realloc(void *old, size_t size)
{
    if (must_fail(INJECT_PROCESS))
        return refuse();
    void *p = __libc_realloc(old, size);
    return old ? p : hold(INJECT_PROCESS, p);
}

void free(void *pointer)
{
    release(INJECT_PROCESS, pointer);
    __libc_free(pointer);
}
/* jansson 2.14's lexer ends the process by an assertion of its own when its string buffer cannot grow (load.c, lex_unget_unsave): nothing
 * above it can catch that. The buffer grows in powers of two, so jansson's allocations of those sizes are left alone; all its others fail. */
static void *jansson_malloc(size_t size)
{
    return size >= 32 && (size & (size - 1)) == 0 ? hold(INJECT_PROCESS, __libc_malloc(size)) : malloc(size);
}

void inject_init(void) { json_set_alloc_funcs(jansson_malloc, free); }
#else
bool inject_can(inject_way way) { return way == INJECT_CONTEXT; }
void inject_init(void) {}
#endif
