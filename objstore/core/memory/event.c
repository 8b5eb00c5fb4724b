#include "memory/event.h"

#include <errno.h>
#include <string.h>

uint64_t event_read(struct segment *s, uint64_t *cursor, struct event_record *out, uint64_t limit, uint64_t *lost)
{
    uint64_t capacity = s->n_events;
    /* pairs with the release in event_write */
    uint64_t head = atomic_load_explicit(&s->h->event_head, memory_order_acquire);
    if (*cursor > head)
        *cursor = head;
    if (head - *cursor > capacity) {
        *lost += head - capacity - *cursor;
        *cursor = head - capacity;
    }
    uint64_t n = head - *cursor < limit ? head - *cursor : limit;
    for (uint64_t done = 0; done < n;) {
        uint64_t at = (*cursor + done) & (capacity - 1);
        uint64_t step = n - done < capacity - at ? n - done : capacity - at;
        memcpy(out + done, s->events + at, (size_t)step * sizeof *out);
        done += step;
    }
    /* The writer may have lapped this reader during the copy, and the record at `head` may be half overwritten. Pairs
     * with the fence in event_write: the copy first, then the head. */
    atomic_thread_fence(memory_order_acquire);
    uint64_t after = atomic_load_explicit(&s->h->event_head, memory_order_relaxed) + 1;
    uint64_t torn = after > capacity && after - capacity > *cursor ? after - capacity - *cursor : 0;
    if (torn > n)
        torn = n;
    memmove(out, out + torn, (size_t)(n - torn) * sizeof *out);
    *lost += torn;
    *cursor += n;
    return n - torn;
}

void event_called_after(struct segment *s, const struct task_slot *t)
{
    segment_lock(s);
    event_write(s, EVENT_CALLED, t->seq, t->attempt, 0, 0, 0, s->me);
    segment_unlock(s);
}

int event_wait(struct segment *s, uint64_t cursor, int64_t timeout_ns)
{
    struct header *h = s->h;
    /* The word says whether a reader sleeps. Writers clear it by an exchange before they wake, so a record written
     * between the load of the head and the futex call changes the word, and the call returns at once. Pairs with the
     * fence in segment_unlock: either the reader sees the new head, or the writer sees that a reader waits. The same
     * holds for `closing`, see client_end_session. */
    atomic_store(&h->event_waiting, 1);
    int result = 0;
    if (atomic_load(&h->event_head) <= cursor && !atomic_load(&h->closing))
        result = futex_wait(&h->event_waiting, 1, timeout_ns);
    return result;
}
