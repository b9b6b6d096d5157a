/* What is run with failing memory. To add one: a function here below, a line in the table at the end of scenarios.c. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "verdit.h"

typedef struct scenario {
    const char *name;
    /* Runs the job and gives back all that it took. It may write only below `out`; when it fails, nothing may be there. */
    vd_status (*run)(vd_context *ctx, const char *inputs, const char *out);
    /* Puts the job's input files below `inputs`, with memory that does not fail; NULL: needs none. */
    vd_status (*prepare)(vd_context *ctx, const char *inputs);
    bool slow; /* runs only when named, and through the context only */
} scenario;

extern const scenario scenarios[];
extern const int      scenario_count;

#endif
