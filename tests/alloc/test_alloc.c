/* Every allocation of every scenario fails once, and once together with all that follow. Each time the call must return VD_NO_MEMORY with
 * a sentence, hold no memory afterwards, and leave no file behind; a crash or a leak fails the program (or the sanitizer does).
 * usage: test_alloc [SCENARIO...]
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "inject.h"
#include "scenarios.h"

static const char *const way_names[INJECT_WAYS] = {"context", "process"};

/* Removes the files of a folder (and of its folders); returns how many there were. */
static int empty_folder(const char *folder)
{
    int            count = 0;
    DIR           *dir   = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char path[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (unlink(path) != 0) {
            count += empty_folder(path);
            rmdir(path);
        }
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

typedef struct outcome {
    vd_status status;
    int64_t   calls, held;
    char      text[256];
} outcome;

static outcome run_once(const scenario *s, inject_way way, int64_t fail_at, bool for_good, const char *inputs, const char *out)
{
    outcome          o       = {0};
    vd_context      *ctx     = NULL;
    const vd_options options = inject_options(way);
    inject_arm(way, fail_at, for_good);
    o.status = vd_open(&options, &ctx);
    if (o.status == VD_OK)
        o.status = s->run(ctx, inputs, out);
    snprintf(o.text, sizeof o.text, "%s", vd_error_text(ctx));
    vd_close(ctx);
    inject_disarm(&o.calls, &o.held);
    return o;
}

static bool report(const scenario *s, inject_way way, int64_t at, bool for_good, const char *what, const outcome *o)
{
    printf("FAILED %s: allocation %lld (%s%s) failing: %s; status %s, text \"%s\", %lld blocks held\n", s->name, (long long)at, way_names[way],
           for_good ? ", and all later" : "", what, vd_status_name(o->status), o->text, (long long)o->held);
    return false;
}

static bool run_way(const scenario *s, inject_way way, const char *inputs, const char *out)
{
    run_once(s, way, 0, false, inputs, out); /* what libraries keep from their first use is not a leak of this run */
    empty_folder(out);
    const outcome whole = run_once(s, way, 0, false, inputs, out);
    empty_folder(out);
    if (whole.status != VD_OK)
        return report(s, way, 0, false, "the job fails with memory enough", &whole);
    if (whole.held != 0)
        return report(s, way, 0, false, "leaks with memory enough", &whole);
    int64_t unnoticed = 0;
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t at = 1; at <= whole.calls; at++) {
            outcome   o     = run_once(s, way, at, for_good, inputs, out);
            const int files = empty_folder(out);
            for (int again = 0; o.held != 0 && way == INJECT_PROCESS && again < 40; again++) {
                o = run_once(s, way, at, for_good, inputs, out); /* libcrypto keeps the texts of its last 16 errors; a leak goes on */
                empty_folder(out);
            }
            if (o.held != 0)
                return report(s, way, at, for_good, "leaks", &o);
            /* Other libraries may do without a block that was only to make them faster; the library itself never. */
            if (o.status == VD_OK && way == INJECT_PROCESS) {
                unnoticed++;
                continue;
            }
            if (o.status != VD_NO_MEMORY)
                return report(s, way, at, for_good, "another status than no-memory", &o);
            if (!strstr(o.text, "memory"))
                return report(s, way, at, for_good, "the text does not say so", &o);
            if (files)
                return report(s, way, at, for_good, "left files behind", &o);
        }
    printf("ok %s: %lld allocations (%s) fail cleanly", s->name, (long long)whole.calls, way_names[way]);
    printf(unnoticed ? ", %lld of them done without\n" : "\n", (long long)unnoticed);
    return true;
}

static bool run_scenario(const scenario *s, const char *root)
{
    char        inputs[600], out[600];
    vd_context *ctx = NULL;
    snprintf(inputs, sizeof inputs, "%s/inputs", root);
    snprintf(out, sizeof out, "%s/out", root);
    mkdir(inputs, 0700);
    mkdir(out, 0700);
    bool good = vd_open(NULL, &ctx) == VD_OK && (!s->prepare || s->prepare(ctx, inputs) == VD_OK);
    if (!good)
        printf("FAILED %s: its inputs could not be made: %s\n", s->name, vd_error_text(ctx));
    vd_close(ctx);
    for (inject_way way = 0; good && way < INJECT_WAYS; way++) {
        if (way != INJECT_CONTEXT && s->slow)
            continue;
        if (inject_can(way))
            good = run_way(s, way, inputs, out);
        else
            printf("skipped %s (%s): this build leaves malloc to the sanitizer, the emulator or OpenMP\n", s->name, way_names[way]);
    }
    empty_folder(inputs);
    rmdir(inputs);
    rmdir(out);
    return good;
}

/* The driver itself can fail: a job that forgets a block when the next is refused, one that hides a failure, one that leaves a file. */
static vd_status forget_block(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    static void *first; /* reachable, so that the driver's own count must find it, not the leak checker */
    first        = vd_alloc(ctx, 1, "a planted fault");
    void *second = first ? vd_alloc(ctx, 1, "a planted fault") : NULL;
    if (!second)
        return ctx->status;
    vd_free(ctx, first);
    vd_free(ctx, second);
    return VD_OK;
}

static vd_status hide_failure(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    vd_free(ctx, vd_alloc(ctx, 1, "a planted fault"));
    vd_clear_error(ctx);
    return VD_OK;
}

static vd_status leave_file(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs;
    char path[700];
    snprintf(path, sizeof path, "%s/half", out);
    const int file = creat(path, 0600);
    if (file >= 0)
        close(file);
    vd_free(ctx, vd_alloc(ctx, 1, "a planted fault"));
    return ctx->status;
}

int main(int argc, char **argv)
{
    char root[] = "/tmp/verdit-alloc-XXXXXX";
    int  failed = 0, ran = 0;
    inject_init();
    if (!mkdtemp(root)) {
        perror("test_alloc: a temporary folder");
        return 1;
    }
    static const scenario planted[] = {{"a forgotten block", forget_block, NULL, false}, {"a hidden failure", hide_failure, NULL, false}, {"a file left", leave_file, NULL, false}};
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        printf("planted, to be found: ");
        failed += run_scenario(&planted[i], root);
    }
    for (int i = 0; i < scenario_count; i++) {
        bool wanted = argc == 1 && !scenarios[i].slow;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], scenarios[i].name) == 0;
        if (wanted) {
            ran++;
            failed += !run_scenario(&scenarios[i], root);
        }
    }
    rmdir(root);
    printf("%d scenarios, %d failed\n", ran, failed);
    return failed || !ran;
}
