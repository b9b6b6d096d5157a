/* Makes the n-th allocation of this thread fail, for a test that takes every n in turn.
 *
 * Two ways in. Through the context: vd_options.alloc, which everything of the library's own goes through. And below it: malloc, calloc,
 * realloc and aligned_alloc of the whole process are replaced in this program, so that jansson's, libcrypto's and the C library's
 * allocations fail too (not in the sanitizer build, which has its own; there the first way runs under the leak checker).
 */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "verdit.h"

typedef enum inject_way { INJECT_CONTEXT, INJECT_PROCESS, INJECT_WAYS } inject_way;

/* Once, before anything else. */
void inject_init(void);
/* Is this way there in this build? */
bool inject_can(inject_way way);
/* From here on the allocation number fail_at (1 is the next; 0: none) fails, and with `for_good` every later one too. */
void inject_arm(inject_way way, int64_t fail_at, bool for_good);
/* Stops; says how many allocations there were, and how many blocks are still held. */
void inject_disarm(int64_t *calls, int64_t *held);
/* The options of a context whose allocations are counted: one thread, since another's are not. */
vd_options inject_options(inject_way way);

#endif
