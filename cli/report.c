#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* The one variable outside a context: a signal handler has no other way to speak. */
static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

void *cli_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        fputs("verdit: no memory for the program's own lists\n", stderr);
        exit(VD_NO_MEMORY);
    }
    return p;
}

/* A chain of blocks: each begins with the address of the one before. */
void *cli_keep(cli *c, size_t count, size_t size)
{
    enum { HEAD = 16 }; /* keeps what follows aligned */
    char *block = cli_alloc(1, HEAD + count * size);
    memcpy(block, &c->kept, sizeof c->kept);
    c->kept = block;
    return block + HEAD;
}

void cli_release(cli *c)
{
    while (c->kept) {
        void *block = c->kept;
        memcpy(&c->kept, block, sizeof c->kept);
        free(block);
    }
}

void cli_show(FILE *to, const char *text)
{
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 32 || byte == 127)
            fprintf(to, "\\x%02x", byte);
        else
            fputc(byte, to);
    }
}

static void print_error(cli *c, vd_status status, const char *reason, const char *text)
{
    cli_end_progress(c);
    fputs("verdit: ", stderr);
    for (const char *p = text; *p;) { /* lines stay lines */
        const size_t n    = strcspn(p, "\n");
        char        *line = strndup(p, n);
        cli_show(stderr, line ? line : "?");
        free(line);
        p += n + (p[n] == '\n');
        if (*p)
            fputs("\n  ", stderr);
    }
    fputc('\n', stderr);
    if (c->json) {
        json_t *error = json_pack("{s{ss ss si so}}", "error", "status", vd_status_name(status), "reason", reason, "exit", (int)status, "message",
                                  cli_text(text));
        char   *line  = error ? json_dumps(error, JSON_COMPACT) : NULL;
        fprintf(stderr, "%s\n", line ? line : "{\"error\":{}}");
        free(line);
        json_decref(error);
    }
}

int cli_fail(cli *c, vd_status status, const char *reason, const char *format, ...)
{
    char    text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error(c, status, reason, text);
    return (int)status;
}

int cli_fail_usage(cli *c, const char *format, ...)
{
    char    text[2048], full[2304];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(full, sizeof full, "%s (verdit %s%s--help)", text, c->verb ? c->verb : "", c->verb ? " " : "");
    print_error(c, VD_BAD_ARGUMENT, "usage", full);
    return VD_BAD_ARGUMENT;
}

int cli_fail_library(cli *c, vd_status status)
{
    print_error(c, status, vd_error_reason(c->ctx), vd_error_text(c->ctx));
    return (int)status;
}

/* ---- Progress ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int on_progress(void *user, const char *what, int64_t done, int64_t total)
{
    cli          *c = user;
    cli_progress *p = &c->progress;
    if (stop_asked)
        return 1;
    if (!p->wanted)
        return 0;
    if (p->terminal) {
        const int64_t now = now_ms();
        if (now - p->shown_at >= 100 || done == total) {
            fprintf(stderr, "\r\033[K%s: %s %lld of %lld", c->verb, what, (long long)done, (long long)total);
            fflush(stderr);
            p->shown_at  = now;
            p->line_open = true;
        }
    } else {
        const int64_t tenth = total > 0 ? 10 * done / total : 10;
        if (tenth != p->shown_tenth)
            fprintf(stderr, "%s: %s %lld of %lld\n", c->verb, what, (long long)done, (long long)total);
        p->shown_tenth = tenth;
    }
    return 0;
}

void cli_end_progress(cli *c)
{
    if (c->progress.line_open)
        fputs("\r\033[K", stderr);
    c->progress.line_open = false;
}

static void on_log(void *user, vd_log_level level, const char *text)
{
    cli *c = user;
    cli_end_progress(c);
    fprintf(stderr, "verdit: %s", level == VD_LOG_WARNING ? "warning: " : "");
    cli_show(stderr, text);
    fputc('\n', stderr);
}

bool cli_open(cli *c)
{
    static const char *const cpu_names[] = {"generic", "avx2", "avx512", "avx512bf16"};
    if (c->device && strcmp(c->device, "cpu")) {
        c->exit = strncmp(c->device, "cuda", 4)
                      ? cli_fail_usage(c, "--device is '%s'; it must be cpu", c->device)
                      : cli_fail(c, VD_UNSUPPORTED, "device", "--device %s: this build has no CUDA kernels; use --device cpu", c->device);
        return false;
    }
    /* The handler only sets a mark, and only once: a second Ctrl-C ends the program at once. */
    const struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is then a failed write, with its message, not a killed program and a stray file */
    c->progress.terminal    = isatty(STDERR_FILENO) == 1;
    c->progress.wanted      = c->progress.terminal || c->progress_asked;
    c->progress.shown_tenth = -1;
    vd_options options;
    vd_options_init(&options);
    options.threads        = (int)c->threads;
    options.cpu            = c->cpu >= 0 ? cpu_names[c->cpu] : NULL;
    options.log            = on_log;
    options.log_user       = c;
    options.progress       = on_progress;
    options.progress_user  = c;
    const vd_status status = vd_open(&options, &c->ctx);
    if (status != VD_OK)
        c->exit = cli_fail_library(c, status);
    return status == VD_OK;
}

/* ---- Small things ---- */

json_t *cli_text(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    if (value)
        return value;
    char *ascii = strdup(text);
    for (char *p = ascii; p && *p; p++)
        if ((unsigned char)*p >= 128)
            *p = '?';
    value = ascii ? json_string(ascii) : json_null();
    free(ascii);
    return value;
}

void cli_print_json(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    puts(text ? text : "{}");
    free(text);
    json_decref(value);
}

const char *cli_bytes(char text[32], int64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double                   value   = (double)bytes;
    int                      unit    = 0;
    for (; value >= 1000 && unit < 4; unit++)
        value /= 1000;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *cli_command(cli *c)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *to   = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fputs("verdit", to);
    for (int i = 1; i < c->argc; i++) {
        const char *word = c->argv[i];
        fputc(' ', to);
        if (*word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%") == strlen(word)) {
            fputs(word, to);
            continue;
        }
        fputc('\'', to);
        for (; *word; word++) {
            if (*word == '\'')
                fputs("'\\''", to);
            else
                fputc(*word, to);
        }
        fputc('\'', to);
    }
    const bool written = fclose(to) == 0;
    char      *kept    = written ? strcpy(cli_keep(c, size + 1, 1), text) : NULL;
    free(text);
    return kept;
}
