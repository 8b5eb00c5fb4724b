/* Sleeping on a word of the segment until it changes, with a look before it where that pays off. */
#ifndef CELLMESH_SLEEP_H
#define CELLMESH_SLEEP_H

#include <stdint.h>

#include "memory/segment.h"

#define TRUST_MAX 16

/* Sleeps until the word differs from `seen`: 0, ETIMEDOUT, EINTR. `sleepers` counts who sleeps there; who changes the
 * word and then finds it above zero wakes them. `timeout_ns` < 0: no limit. With a `trust`, which starts at TRUST_MAX
 * and is kept from call to call, it polls for some microseconds before it sleeps, as long as that pays off; NULL: it
 * sleeps at once. Never under the lock. The caller looks again after each return, whatever the result. */
int word_sleep(_Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t seen, int64_t timeout_ns,
               _Atomic int *trust);

/* Changes the word, and wakes up to `n` of its sleepers. */
void word_wake(_Atomic uint32_t *word, const _Atomic uint32_t *sleepers, int n);

#endif
