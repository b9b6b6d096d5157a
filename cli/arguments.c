/* Reading a command line by a table. Every refusal names the option, the value and what is allowed. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { ARGUMENT_LIMIT = 48, LIST_LIMIT = 1 << 20 };

typedef struct table {
    cli_argument items[ARGUMENT_LIMIT];
    int          given[ARGUMENT_LIMIT]; /* how often */
    int          count, own;            /* the verb's own come first */
    bool         help;
} table;

static int edit_distance(const char *a, const char *b)
{
    enum { ROOM = 32 };
    const size_t n = strlen(a), m = strlen(b);
    int          row[ROOM + 1];
    if (n > ROOM || m > ROOM)
        return ROOM;
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int corner = row[0];
        row[0]     = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const int above = row[j];
            int       best  = corner + (a[i - 1] != b[j - 1]);
            best            = best < above + 1 ? best : above + 1;
            row[j]          = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
            corner          = above;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *text, const char *const *words, int count)
{
    const char *best     = NULL;
    int         distance = 3;
    for (int i = 0; i < count; i++) {
        const int    d      = edit_distance(text, words[i]);
        const size_t length = strlen(text);
        const bool   starts = length >= 3 && !strncmp(words[i], text, length) && strcmp(text, "--");
        if (d < distance || (starts && !best)) {
            best     = words[i];
            distance = d < distance ? d : distance;
        }
    }
    return best;
}

static void build_table(cli *c, const cli_spec *spec, table *t)
{
    for (int i = 0; i < spec->argument_count; i++)
        t->items[t->count++] = spec->arguments[i];
    t->own = t->count;
    if (spec->common & CLI_WITH_MODEL)
        t->items[t->count++] = (cli_argument){
            "--model", 'm', CLI_TEXT, "DIR", .value = &c->model, .help = "a model folder: a pipeline (with transformer/) or a component's own"};
    if (spec->common & CLI_WITH_NUMBERS) {
        t->items[t->count++] = (cli_argument){
            "--policy", 0, CLI_CHOICE, "bf16|f32|f32-situ", .value = &c->policy, .help = "where numbers round (default bf16, as published)"};
        t->items[t->count++] =
            (cli_argument){"--arith",          0,
                           CLI_CHOICE,         "tc16|fma",
                           .value = &c->arith, .help = "tc16: a Hopper GPU's order (default); with --match torch2.11-h200, torch's own bytes. fma: a CPU's speed"};
        t->items[t->count++] = (cli_argument){"--match",          0,
                                              CLI_CHOICE,         "none|torch2.11-h200",
                                              .value = &c->match, .help = "torch2.11-h200: few-row linears as cuBLAS splits them (default none)"};
    }
    if (spec->common & CLI_WITH_DEVICE) {
        t->items[t->count++] = (cli_argument){"--device", 0, CLI_TEXT, "cpu", .value = &c->device, .help = "where it runs (default cpu)"};
        t->items[t->count++] = (cli_argument){"--cpu",          0,
                                              CLI_CHOICE,       "generic|avx2|avx512|avx512bf16",
                                              .value = &c->cpu, .help = "the highest vector level used (default: the CPU's best); changes no byte"};
        t->items[t->count++] =
            (cli_argument){"--threads", 0, CLI_INTEGER, "N", 0, 1024, &c->threads, .help = "0 (default): one per CPU; changes no byte"};
    }
    t->items[t->count++] =
        (cli_argument){"--json", 0, CLI_FLAG, .value = &c->json, .help = "the result as JSON on stdout, an error as JSON on stderr"};
    t->items[t->count++] =
        (cli_argument){"--progress", 0, CLI_FLAG, .value = &c->progress_asked, .help = "show progress on stderr though it is no terminal"};
    t->items[t->count++] = (cli_argument){"--help", 'h', CLI_FLAG, .value = &t->help, .help = "this text"};
}

static void print_arguments(const cli_argument *items, int count)
{
    for (int i = 0; i < count; i++) {
        char       left[128];
        const char letter[5] = {'-', items[i].letter, ',', ' ', 0};
        snprintf(left, sizeof left, "%s%s%s%s", items[i].letter ? letter : "    ", items[i].name, items[i].shown ? " " : "",
                 items[i].shown ? items[i].shown : "");
        if (strlen(left) > 28)
            printf("  %s\n%32s%s\n", left, "", items[i].help);
        else
            printf("  %-30s%s\n", left, items[i].help);
    }
}

static void print_help(const cli *c, const cli_spec *spec, const table *t)
{
    printf("usage: verdit %s %s\n\n%s\n\n", c->verb, spec->usage, spec->about);
    for (int i = 0; i < spec->positional_count; i++)
        printf("  %-30s%s\n", spec->positionals[i].name, spec->positionals[i].help);
    print_arguments(t->items, t->own);
    if (spec->positional_count + t->own)
        puts("");
    print_arguments(t->items + t->own, t->count - t->own);
    printf("\nexamples:\n%s", spec->examples);
}

/* ---- Values ---- */

static int read_choice(cli *c, const cli_argument *a, const char *text)
{
    int         index = 0;
    const char *word  = a->shown;
    for (;; index++) {
        const size_t n = strcspn(word, "|");
        if (strlen(text) == n && !strncmp(word, text, n)) {
            *(int *)a->value = index;
            return VD_OK;
        }
        if (!word[n])
            break;
        word += n + 1;
    }
    char allowed[256];
    snprintf(allowed, sizeof allowed, "%s", a->shown);
    for (char *p = allowed; (p = strchr(p, '|'));)
        *p = ' ';
    return cli_fail_usage(c, "%s is '%s'; it must be one of: %s", a->name, text, allowed);
}

static bool read_whole(const char *text, char **end, int64_t low, int64_t high, int64_t *value)
{
    if (!strchr("-0123456789", *text) || !*text)
        return false;
    errno             = 0;
    const long long v = strtoll(text, end, 10);
    *value            = v;
    return *end != text && !errno && v >= low && v <= high;
}

static int read_list(cli *c, const cli_argument *a, const char *text)
{
    cli_numbers *list = a->value;
    int          room = 16;
    list->items       = cli_keep(c, (size_t)room, sizeof *list->items);
    list->count       = 0;
    if (!*text)
        return VD_OK;
    for (const char *p = text;; p++) {
        char   *end;
        int64_t first, last;
        bool    good = read_whole(p, &end, a->low, a->high, &first);
        last         = first;
        if (good && *end == '-')
            good = read_whole(end + 1, &end, a->low, a->high, &last) && last >= first && last - first < LIST_LIMIT;
        if (!good || (*end && *end != ','))
            return cli_fail_usage(c, "%s is '%s'; it must be a list like 0,3,8-11 of whole numbers from %lld to %lld", a->name, text,
                                  (long long)a->low, (long long)a->high);
        for (int64_t i = first; i <= last; i++) {
            if (list->count == room) {
                int64_t *more = cli_keep(c, (size_t)room * 2, sizeof *more);
                memcpy(more, list->items, (size_t)room * sizeof *more);
                list->items = more;
                room *= 2;
            }
            if (list->count >= LIST_LIMIT)
                return cli_fail_usage(c, "%s lists more than %d numbers", a->name, (int)LIST_LIMIT);
            list->items[list->count++] = i;
        }
        if (!*end)
            return VD_OK;
        p = end;
    }
}

static int read_value(cli *c, const cli_argument *a, const char *text, int argc)
{
    char   *end;
    int64_t value;
    switch (a->kind) {
    case CLI_FLAG: *(bool *)a->value = true; return VD_OK;
    case CLI_TEXT:
        if (!*text)
            return cli_fail_usage(c, "%s is empty; it must be %s", a->name, a->shown ? a->shown : "a text");
        *(const char **)a->value = text;
        return VD_OK;
    case CLI_TEXTS: {
        cli_texts *texts = a->value;
        if (!texts->items)
            texts->items = cli_keep(c, (size_t)argc + 2, sizeof *texts->items); /* a NULL stays at the end */
        texts->items[texts->count++] = text;
        return VD_OK;
    }
    case CLI_INTEGER:
        if (!read_whole(text, &end, a->low, a->high, &value) || *end)
            return cli_fail_usage(c, "%s is '%s'; it must be a whole number from %lld to %lld", a->name, text, (long long)a->low, (long long)a->high);
        *(int64_t *)a->value = value;
        return VD_OK;
    case CLI_NUMBER: {
        const double number = strtod(text, &end);
        if (end == text || *end || !(number >= (double)a->low && number <= (double)a->high))
            return cli_fail_usage(c, "%s is '%s'; it must be a number from %lld to %lld", a->name, text, (long long)a->low, (long long)a->high);
        *(double *)a->value = number;
        return VD_OK;
    }
    case CLI_CHOICE: return read_choice(c, a, text);
    case CLI_SIZE: {
        int64_t size[2];
        if (!read_whole(text, &end, a->low, a->high, &size[0]) || *end != 'x' || !read_whole(end + 1, &end, a->low, a->high, &size[1]) || *end)
            return cli_fail_usage(c, "%s is '%s'; it must be HxW, each from %lld to %lld", a->name, text, (long long)a->low, (long long)a->high);
        memcpy(a->value, size, sizeof size);
        return VD_OK;
    }
    case CLI_LIST: return read_list(c, a, text);
    }
    return VD_INTERNAL;
}

/* Finds "--name", "--name=value", "-x". *value points behind the equal sign, or is NULL. */
static int find_argument(const table *t, const char *word, const char **value)
{
    const char  *equal  = strchr(word, '=');
    const size_t length = equal ? (size_t)(equal - word) : strlen(word);
    *value              = equal ? equal + 1 : NULL;
    for (int i = 0; i < t->count; i++) {
        const bool by_letter = length == 2 && word[0] == '-' && t->items[i].letter && word[1] == t->items[i].letter;
        if (by_letter || (strlen(t->items[i].name) == length && !strncmp(t->items[i].name, word, length)))
            return i;
    }
    return -1;
}

static int fail_unknown(cli *c, const table *t, const char *word)
{
    const char *names[ARGUMENT_LIMIT];
    char        name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (int i = 0; i < t->count; i++)
        names[i] = t->items[i].name;
    const char *near = cli_nearest(name, names, t->count);
    return near ? cli_fail_usage(c, "there is no option %s; did you mean %s?", name, near) : cli_fail_usage(c, "there is no option %s", name);
}

static int parse(cli *c, const cli_spec *spec, table *t, int argc, char **argv)
{
    int  placed          = 0;
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_positional && !strcmp(word, "--")) {
            only_positional = true;
            continue;
        }
        int status = VD_OK;
        if (only_positional || word[0] != '-' || !word[1]) {
            const cli_argument *last = spec->positional_count ? &spec->positionals[spec->positional_count - 1] : NULL;
            if (placed >= spec->positional_count && !(last && last->kind == CLI_TEXTS))
                return cli_fail_usage(c, "'%s' is one argument too many", word);
            status = read_value(c, placed < spec->positional_count ? &spec->positionals[placed] : last, word, argc);
            placed++;
        } else {
            const char *value;
            const int   found = find_argument(t, word, &value);
            if (found < 0)
                return fail_unknown(c, t, word);
            const cli_argument *a = &t->items[found];
            if (a->kind == CLI_FLAG && value)
                return cli_fail_usage(c, "%s takes no value", a->name);
            if (a->kind != CLI_FLAG && !value && i + 1 < argc)
                value = argv[++i];
            else if (a->kind != CLI_FLAG && !value)
                return cli_fail_usage(c, "%s needs a value: %s", a->name, a->shown);
            if (t->given[found]++ && a->kind != CLI_TEXTS && a->kind != CLI_FLAG)
                return cli_fail_usage(c, "%s is given twice", a->name);
            status = read_value(c, a, value, argc);
        }
        if (status != VD_OK)
            return status;
    }
    if (t->help)
        return VD_OK;
    for (int i = placed; i < spec->positional_count; i++)
        if (!spec->positionals[i].optional)
            return cli_fail_usage(c, "%s is missing: %s", spec->positionals[i].name, spec->positionals[i].help);
    return VD_OK;
}

bool cli_parse(cli *c, const cli_spec *spec, int argc, char **argv)
{
    table t = {0};
    build_table(c, spec, &t);
    /* --help wins over whatever else is wrong with the line. */
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        t.help |= !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
    if (t.help) {
        print_help(c, spec, &t);
        c->exit = VD_OK;
        return false;
    }
    c->exit = parse(c, spec, &t, argc, argv);
    return c->exit == VD_OK;
}
