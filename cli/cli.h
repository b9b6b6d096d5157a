/* What every verb of the program shares: its arguments, its context, how it speaks and how it ends.
 *
 * The program knows the library through verdit.h only. Results go to stdout or to files, talk goes to stderr; the exit code is a
 * vd_status. A verb is one file with one function: it describes its arguments in a table, calls cli_parse, cli_open and the library.
 */
#ifndef CLI_H
#define CLI_H

#include <jansson.h>
#include <stdio.h>

#include "verdit.h"

typedef struct cli_texts {
    const char **items;
    int          count;
} cli_texts;

typedef struct cli_numbers {
    int64_t *items;
    int      count;
} cli_numbers;

typedef struct cli_progress {
    bool    wanted, terminal;
    bool    line_open;   /* a line without its end is on the terminal */
    int64_t shown_at;    /* milliseconds */
    int64_t shown_tenth; /* off a terminal: the last tenth that was written */
} cli_progress;

typedef struct cli {
    const char  *verb;
    int          argc; /* of the whole program: receipts quote it */
    char       **argv;
    bool         json, progress_asked;
    const char  *model; /* -m */
    const char  *device;
    int          cpu; /* index into cli_cpu_names, or -1 */
    int64_t      threads;
    int          policy, arith, match;
    vd_context  *ctx;
    cli_progress progress;
    int          exit; /* set when cli_parse returns false */
    void        *kept; /* cli_keep's memory */
} cli;

/* ---- Arguments: arguments.c ---- */

typedef enum cli_kind {
    CLI_FLAG,    /* bool */
    CLI_TEXT,    /* const char * */
    CLI_TEXTS,   /* cli_texts: may be given several times */
    CLI_INTEGER, /* int64_t in [low, high] */
    CLI_NUMBER,  /* double in [low, high] */
    CLI_CHOICE,  /* int: the index of a word in `shown`, words separated by | */
    CLI_SIZE,    /* int64_t[2]: HxW, each in [low, high] */
    CLI_LIST     /* cli_numbers: "1,5,8-11", each in [low, high] */
} cli_kind;

typedef struct cli_argument {
    const char *name;   /* "--rows"; a positional argument: "FILE" */
    char        letter; /* 'm' for -m, or 0 */
    cli_kind    kind;
    const char *shown; /* "DIR"; for choices the words */
    int64_t     low, high;
    void       *value;    /* left as it is when the argument is not given */
    bool        optional; /* of positional arguments */
    const char *help;
} cli_argument;

enum { CLI_WITH_MODEL = 1, CLI_WITH_DEVICE = 2, CLI_WITH_NUMBERS = 4 };

typedef struct cli_spec {
    const char         *usage; /* after "verdit VERB " */
    const char         *about;
    const char         *examples;
    int                 common; /* CLI_WITH_… */
    const cli_argument *arguments;
    int                 argument_count;
    const cli_argument *positionals; /* in order; the last may be CLI_TEXTS */
    int                 positional_count;
} cli_spec;

/* Reads argv[0..argc) into the values. False: c->exit is the exit code (0 after --help). */
bool cli_parse(cli *c, const cli_spec *spec, int argc, char **argv);
/* The nearest of `words` within two edits, or NULL. */
const char *cli_nearest(const char *text, const char *const *words, int count);

/* ---- Speaking and ending: report.c ---- */

/* `verdit: text` on stderr, with --json also {"error": …}; returns `status`, the exit code. */
int cli_fail(cli *c, vd_status status, const char *reason, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for what the context says. */
int cli_fail_library(cli *c, vd_status status);
/* Usage errors name the verb's help. */
int cli_fail_usage(cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Opens c->ctx from the common arguments, with progress and Ctrl-C; false: c->exit is the exit code. */
bool cli_open(cli *c);
void cli_end_progress(cli *c);
/* Text from files, control bytes shown as \xHH. */
void cli_show(FILE *to, const char *text);
/* A JSON string; bytes that are not UTF-8 (paths may hold any) become question marks. NULL gives null. */
json_t *cli_text(const char *text);
/* Prints a JSON value on stdout and releases it. */
void cli_print_json(json_t *value);
/* "1.2 MB", in a buffer of the caller. */
const char *cli_bytes(char text[32], int64_t bytes);
/* The words of the command line, quoted where a shell needs it. NULL without memory. */
const char *cli_command(cli *c);
/* Memory, zeroed; the program ends with code 5 when there is none. cli_alloc's is the caller's to free(), cli_keep's lives as long as `c`. */
void *cli_alloc(size_t count, size_t size);
void *cli_keep(cli *c, size_t count, size_t size);
void  cli_release(cli *c);

/* ---- Verbs ---- */

int cli_info(cli *c, int argc, char **argv);
int cli_synth(cli *c, int argc, char **argv);
int cli_run(cli *c, int argc, char **argv);
int cli_op(cli *c, int argc, char **argv);
int cli_gate(cli *c, int argc, char **argv);
int cli_contract(cli *c, int argc, char **argv);
int cli_verify(cli *c, int argc, char **argv);
int cli_bench(cli *c, int argc, char **argv);

#endif
