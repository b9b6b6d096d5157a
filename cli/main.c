/* verdit: finds the verb and hands over. */
#include <signal.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name, *summary;
    int (*run)(cli *, int, char **);
} verbs[] = {
    {"info", "what a file or a model folder holds, and the memory a run would take", cli_info},
    {"synth", "make a synthetic model folder or a request for one", cli_synth},
    {"run", "run a model once, whole or from node to node; writes tensors and a receipt", cli_run},
    {"gate", "judge a model's nodes against a recorded case", cli_gate},
    {"verify", "repeat the run of a receipt, or audit some of its rows", cli_verify},
    {"op", "one operation under a named contract; --kit writes the conformance kit", cli_op},
    {"contract", "what is promised, proved on this machine", cli_contract},
    {"bench", "speed of the operations at a model's shapes", cli_bench},
};
enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

static void print_help(FILE *to)
{
    fprintf(to, "verdit %s: diffusion transformers with numbers that can be checked\n\nusage: verdit VERB [arguments]\n\n", VERDIT_VERSION);
    for (int i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "\nverdit VERB --help explains a verb, with examples. verdit --version prints the version.\n"
                "Exit: 0 held, 1 did not hold, 2 usage, 3 bad input file, 4 cannot be served as asked, 5 memory, 6 reading or writing, 7 stopped, 70 "
                "our fault.\n");
}

int main(int argc, char **argv)
{
    cli c = {.argc = argc, .argv = argv, .cpu = -1};
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        c.json |= !strcmp(argv[i], "--json"); /* before anything can fail, so that every error can be read by a program */
    if (argc < 2) {
        print_help(stderr);
        return VD_BAD_ARGUMENT;
    }
    int code = -1;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        code = VD_OK;
    } else if (!strcmp(argv[1], "--version")) {
        printf("verdit %s\n", VERDIT_VERSION);
        code = VD_OK;
    }
    const char *names[VERB_COUNT];
    for (int i = 0; i < VERB_COUNT && code < 0; i++) {
        names[i] = verbs[i].name;
        if (!strcmp(argv[1], verbs[i].name)) {
            c.verb = verbs[i].name;
            code   = verbs[i].run(&c, argc - 2, argv + 2);
            cli_end_progress(&c);
            vd_close(c.ctx);
            cli_release(&c);
        }
    }
    if (code < 0) {
        const char *near = cli_nearest(argv[1], names, VERB_COUNT);
        if (near)
            return cli_fail_usage(&c, "there is no verb '%s'; did you mean %s?", argv[1], near);
        return cli_fail_usage(&c, "there is no verb '%s'", argv[1]);
    }
    /* A full disk behind a redirected stdout is a failure to write like any other. */
    if (fflush(stdout) != 0 || ferror(stdout))
        return code == VD_OK ? cli_fail(&c, VD_IO, "stdout", "standard output could not be written: the disk may be full, or the reader closed it")
                             : code;
    return code;
}
