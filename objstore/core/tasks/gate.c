#include "tasks/gate.h"

#include "tasks/resource.h"

uint32_t gate_for(struct segment *s, uint64_t function)
{
    struct header *h = s->h;
    bool named[MAX_CLASSES + 1] = {false};
    if (!function)
        return 0;
    for (uint32_t c = 0; c < h->n_classes; c++)
        if (resource_is_used(s, c))
            named[s->classes[c].gate_1 <= MAX_CLASSES ? s->classes[c].gate_1 : 0] = true;
    uint32_t g = 0, free = h->n_gates;
    while (g < h->n_gates && h->gates[g].function != function) {
        if (!named[g + 1] && free == h->n_gates)
            free = g;
        g++;
    }
    if (g < h->n_gates)
        return g + 1;
    struct gate *gate = gate_at(s, free);
    *gate = (struct gate){.function = function};
    STEP();
    h->n_gates += free == h->n_gates;
    return free + 1;
}

bool gate_is_full(const struct segment *s, const struct resource_class *c)
{
    return c->gate_1 && c->terms.most && gate_at(s, c->gate_1 - 1)->n_running >= c->terms.most;
}

uint64_t gate_wait(const struct segment *s, const struct resource_class *c)
{
    uint64_t last = c->gate_1 && c->terms.interval ? gate_at(s, c->gate_1 - 1)->last : 0;
    if (!last)
        return 0;
    uint64_t left = last + c->terms.interval - ticks_now();
    return left <= c->terms.interval + ticks_in_20_us() ? left : 0; /* a negative one would be the largest */
}

bool gate_lets_pass(const struct segment *s, const struct resource_class *c)
{
    return !gate_is_full(s, c) && !gate_wait(s, c);
}

bool gate_is_open_in_place(const struct segment *s, const struct resource_class *c)
{
    return c->n_in_place && gate_is_full(s, c) && !gate_wait(s, c);
}

int64_t gate_room(const struct segment *s, const struct resource_class *c, int64_t n)
{
    if (!c->gate_1)
        return n;
    if (!gate_lets_pass(s, c))
        return n && gate_is_open_in_place(s, c);
    int64_t most = c->terms.interval && n > 1 ? 1 : n;
    int64_t places = c->terms.most ? (int64_t)c->terms.most - gate_at(s, c->gate_1 - 1)->n_running : n;
    return places < most ? places : most;
}

bool gate_is_that_of(const struct segment *s, const struct resource_class *c)
{
    return c->terms.function
               ? c->gate_1 && c->gate_1 <= s->h->n_gates && gate_at(s, c->gate_1 - 1)->function == c->terms.function
               : !c->gate_1;
}

void gate_count(struct segment *s, const struct task_slot *t, int sign)
{
    uint32_t gate_1 = t->actor_1 ? 0 : class_at(s, t->resource_class)->gate_1;
    if (gate_1)
        gate_at(s, gate_1 - 1)->n_running += (uint32_t)sign;
}

void gate_pass(struct segment *s, const struct task_slot *t, int sign)
{
    const struct resource_class *c = class_at(s, t->resource_class);
    if (sign > 0 && c->terms.interval && c->gate_1 && !t->actor_1)
        gate_at(s, c->gate_1 - 1)->last = ticks_now();
    gate_count(s, t, sign);
}

void gate_watch(struct segment *s, const struct resource_class *c)
{
    struct header *h = s->h;
    if (gate_is_full(s, c) || !gate_wait(s, c))
        return;
    uint64_t opens = gate_at(s, c->gate_1 - 1)->last + c->terms.interval;
    if (h->next_start && h->next_start <= opens)
        return;
    h->next_start = opens;
    request_attention(s);
}

uint64_t gate_next_look(struct segment *s)
{
    struct header *h = s->h;
    uint64_t soonest = 0;
    for (uint32_t i = 0; h->n_gates && i < h->n_classes; i++) {
        const struct resource_class *c = &s->classes[i];
        uint64_t wait = c->n_ready && !gate_is_full(s, c) ? gate_wait(s, c) : 0;
        if (wait && (!soonest || wait < soonest))
            soonest = wait;
    }
    h->next_start = soonest ? ticks_now() + soonest : 0;
    return soonest;
}
