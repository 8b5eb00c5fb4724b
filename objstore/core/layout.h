/* What lies where in the shared segment. This file is a format: it alone says what the bytes mean.
 *
 *     header and pools | resource classes | clients | actors | objects | tasks | events | readers | arena
 *
 * Offsets and indices instead of pointers, because every process maps the segment at an address of its own;
 * fixed-width fields; a signature of the struct sizes that attach compares. An index named `…_1` is "index + 1",
 * so that zero-filled memory means "none".
 *
 * Truth and derivation. Authoritative are: the states and fields of object, task, actor and client slots and of pools, the
 * reference arrays of tasks and objects, and the arena's chunk headers. Derived, and rebuilt by recover.c after
 * a process died inside the lock, are: free lists, queues, mailboxes, waiting lists, pins, counts, available
 * resources, idle bits, what clients run. Hence the order of writes in every mutation: all fields first, then the state word as
 * the commit; on freeing, the state word first. Death falls between two instructions of one process, and who
 * knows of it finds all that was written before (liveness.h says why), so program order (a compiler fence) is enough against
 * death; acquire and release are for live peers.
 *
 * "L" in a comment: read and written under the segment lock, whose exchange in segment_unlock and acquire in segment_lock order it, so
 * that the order of its own accesses tells nothing. The states of tasks and actors are such; atomic so that a death leaves the old
 * or the new one, and for a glance without the lock by whom they belong to. "A": atomic, without it; with whom it pairs stands where
 * it is used, or here:
 *
 *     client.pid, start_time, generation   client_attach writes them, then takes the lock | owner_has_ended sees that lock, then reads
 *     client.pid, state                    client_died frees the state, then the number | client_attach reads the number, then the state
 *     client.state                         client_attach, under the lock, last | whoever finds it attached reads the rest
 *     client.flags                         under the lock, then a wake-up | should_leave, after reading the inbox
 *     holders                              object_hold, while something else keeps it alive, which ends under the lock | object_drop
 *     used, n_waits, n_awaited, trust      hints, with nothing behind them
 *     stopped_pid, n_expelled, expelled_pid  for show; the signal goes by what process_signal sees
 *     closing, corrupt                     written, then everybody is notified | read after the inbox, or once more a moment later
 */
#ifndef CELLMESH_LAYOUT_H
#define CELLMESH_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arena.h"

#define LAYOUT_MAGIC UINT64_C(0x6873656d6c6c6563) /* "cellmesh" */
#define LAYOUT_VERSION 7u

#define MAX_SLOTS (UINT32_MAX / 2) /* objects, tasks: "index + 1" and a mark beyond all indices fit into 32 bits */
#define MAX_CLIENTS 256u      /* bits in `holders` and `waiters` */
#define CLIENT_WORDS (MAX_CLIENTS / 64u)
#define MAX_KINDS 16u         /* kinds of resources: CPU, GPU, memory and thirteen custom ones */
#define CLASS_BITS 9
#define MAX_CLASSES (1u << CLASS_BITS) /* resource shapes of tasks and actors at a time */
#define N_LASTING_CLASSES 4u  /* the first of them are never given up: whatever there is, plain tasks find theirs */
#define N_LANES 8u            /* queues of a resource shape, by function: their tasks take turns */
#define MAX_GPUS 32u          /* bits in a task's gpu mask */
#define KIND_NAME_SIZE 32u
#define OBJECT_INLINE_SIZE 24u
#define TASK_INLINE_SIZE 40u
#define MAX_POOLS 256u        /* the node, and bundles of placement groups */
#define MAX_GROUPS 12u        /* concurrency groups of an actor, the unnamed one included */
#define AWAY_FOLDER_SIZE 1024u
#define STRATEGY_SIZE 248u    /* of a task's route, in the agent's words */
#define RESOURCE_UNIT 10000   /* amounts are kept in ten-thousandths */

enum resource_kind { KIND_CPU = 0, KIND_GPU = 1, KIND_MEMORY = 2 };
enum client_role { ROLE_SCHEDULER = 0, ROLE_DRIVER = 1, ROLE_WORKER = 2, ROLE_PROXY = 3 /* another machine, see proxy.h */ };

/* ---- objects: created (PENDING) -> sealed (READY, ERROR, FAILED) -> FREE, generation + 1 */
enum object_state {
    OBJECT_FREE = 0,    /* in the free list */
    OBJECT_PENDING = 1, /* its task has not ended, or its putter is still writing */
    OBJECT_READY = 2,   /* sealed: bytes immutable */
    OBJECT_ERROR = 3,   /* sealed: the bytes describe an error that a task raised */
    OBJECT_FAILED = 4   /* sealed by the system: `failure` says why there is no value */
};
#define OBJECT_STATE_MASK 0xffu
#define OBJECT_HAS_WAITERS 0x100u /* set by a waiter's own read-modify-write, seen by the sealer's exchange */

enum failure_code {
    FAILURE_WORKER_CRASHED = 1, /* detail: -signal or exit status */
    FAILURE_CANCELLED = 2,
    FAILURE_ACTOR_DIED = 3,     /* detail: as worker crashed, 0 when ended on purpose */
    FAILURE_ACTOR_UNAVAILABLE = 4,
    FAILURE_OUT_OF_MEMORY = 5,
    FAILURE_OBJECT_LOST = 6,
    FAILURE_STORE_FULL = 7,     /* the result did not fit */
    FAILURE_STREAM_ENDED = 8,   /* an item that its task did not come to; readers of the stream never see it */
    FAILURE_UNPLACED = 9,       /* its placement group was removed; detail: the group's number */
    FAILURE_ACTOR_UNPLACED = 10, /* likewise that of its actor */
    FAILURE_NODE_DIED = 11,     /* the machine that ran it was lost */
    FAILURE_CANNOT_LEAVE = 12,  /* it was to go to another machine, and cannot */
    FAILURE_UNROUTED = 13       /* the machine that alone may run it is no member of the cluster; detail: its resource class */
};

struct object_slot {
    _Atomic uint32_t state;      /* A  object_state | HAS_WAITERS */
    uint32_t generation;         /* L  bumped on free: no ABA */
    uint32_t first_waiting_1;    /* L  tasks whose dependency cursor stands here; in a free slot: next free */
    uint32_t pins;               /* L  by tasks (dependency, nested ref, function, result), actors, containing objects */
    _Atomic uint64_t offset;     /* L  of the payload in the arena, 0: inline; | OBJECT_AWAY: not in memory. A read, see away.h */
    uint64_t size;               /*    bytes of the encoded value */
    _Atomic uint64_t holders[CLIENT_WORDS]; /* A set, L clear: clients that have a ref */
    _Atomic uint64_t waiters[CLIENT_WORDS]; /* A  clients to notify when sealed */
    union {
        unsigned char inline_data[OBJECT_INLINE_SIZE]; /* READY/ERROR with offset 0 */
        struct {               /* READY/ERROR in the arena or away */
            uint32_t n_refs;   /*    refs follow the value; a stream counts them itself, in the arena: REFS_OF_STREAM */
            uint32_t actor_1;
            uint16_t mover_1;  /* L  client that takes it to disk or back, a hint */
            uint16_t stays;    /* L  never goes to disk, a hint */
            _Atomic uint32_t used; /* A  read since somebody last looked for what could go to disk, a hint */
        } arena;
        struct { uint32_t task_1; } pending;           /* PENDING: a hint, see task_producing; a sealer overwrites it */
        struct { uint32_t code; int32_t detail; uint64_t seq; } failure; /* FAILED */
    } u;
    uint64_t creator; /* seq of the producing task, or a put's number with bit 63 set, or who brings it from elsewhere: CREATED_BY_PROXY */
};
#define PUT_BIT (UINT64_C(1) << 63)
#define CREATED_BY_PROXY (PUT_BIT | UINT64_C(1) << 62) /* | its generation << 16 | its index */
#define OBJECT_AWAY (UINT64_C(1) << 63) /* in `offset`, whose rest is then the number of a file ... */
#define OBJECT_ELSEWHERE (UINT64_C(1) << 62) /* ... or, with this bit, the proxy of the machine where it lies: generation << 16 | index */
#define REFS_OF_STREAM UINT32_MAX

/* Clients that look at the bytes of an object in the arena right now; only of objects that may go to disk. See away.h */
struct object_readers { _Atomic uint64_t clients[CLIENT_WORDS]; /* A */ };

/* The bytes of a stream object. Its references follow: the result of its task, then its items. See stream.h */
struct stream {
    uint32_t n, capacity; /* L  references; growing is copying, so that all of this changes in one store */
    uint64_t first;       /* L  number of the first item that is listed */
    uint64_t next;        /* L  number of the next item to be handed out */
    uint32_t limit;       /*    items that the task may be ahead, 0: any number */
    uint32_t waiting_1;   /* L  client of the task that waits for room */
    uint32_t error_told;  /* L  the error that ended the task has been handed out as the last item */
    uint32_t spare;
};

/* ---- tasks */
enum task_state {
    TASK_FREE = 0,
    TASK_WAITING = 1,   /* in the waiting list of its dependency number `cursor` (actor calls: also in the mailbox) */
    TASK_READY = 2,     /* in the queue of its class, or in its actor's mailbox */
    TASK_RUNNING = 3,   /* on client `worker`, in no list */
    TASK_CANCELLED = 4, /* results sealed; still in a waiting list or mailbox, dropped when met */
    TASK_HELD = 5       /* the finished constructor of an actor, kept for restarts */
};
enum task_flags {
    TASK_FLAG_ACTOR_CREATION = 1,
    TASK_FLAG_HIDDEN = 2,      /* leaves no events */
    TASK_FLAG_ENV = 4,         /* enter/leave hooks around it */
    TASK_FLAG_CANCEL = 8,      /* asked to stop while running */
    TASK_FLAG_BLOCKED = 16,    /* sleeps in get/wait: its CPU has been given back */
    TASK_FLAG_RETRY_EXCEPTIONS = 32,
    TASK_FLAG_LOOSE = 64,      /* cancelled call that one of its two lists has dropped */
    TASK_FLAG_LENT = 128,      /* runs on the CPU of the task that waits for it */
    TASK_FLAG_STREAM = 256,    /* yields: its last ref is the stream object */
    TASK_FLAG_ELSEWHERE = 512, /* runs on another machine: holds nothing of this one */
    TASK_FLAG_STAYS = 1024,    /* came from another machine: goes to no third one */
    TASK_OOM_SHIFT = 12        /* from here on: how often its worker was ended because memory ran out */
};
#define TASK_OOM_MAX 15u

struct task_slot {
    _Atomic uint32_t state;
    uint32_t next_1;         /* L  queue, mailbox or free list */
    uint32_t next_waiting_1; /* L  waiting list of an object; in a queue: the previous task */
    uint32_t result_1;       /*    first return's object slot; further ones follow the refs */
    uint32_t function;       /*    object slot of the function */
    uint16_t n_returns;
    uint16_t attempt;        /* L  0 at first */
    uint16_t resource_class;
    uint16_t worker;         /* L  client that runs it */
    uint32_t actor_1;        /*    call of, or constructor of, this actor */
    uint32_t n_refs;         /*    refs[0..n_dependencies) are dependencies, the rest is nested in the arguments */
    uint32_t n_dependencies;
    uint32_t cursor;         /* L  dependencies below it are sealed */
    uint32_t origin;         /*    cell that submitted it */
    int16_t max_retries;     /*    -1: for ever */
    uint16_t flags;          /* L  task_flags */
    uint32_t arguments_size;
    uint16_t caller;         /* L  submitting client; once that has died, MAX_CLIENTS: its slot's next client is another caller */
    uint16_t group;          /*    of a call: its concurrency group; of a task: calls after which its worker leaves, 0: never */
    uint32_t gpu_mask;       /* L  devices held while running */
    uint64_t offset;         /*    of refs + further returns + arguments in the arena, 0: inline */
    uint64_t seq;            /*    identity and order */
    uint64_t parent;         /*    seq of the submitting task, 0: the driver */
    unsigned char inline_data[TASK_INLINE_SIZE];
};

/* ---- actors */
enum actor_state { ACTOR_FREE = 0, ACTOR_PENDING = 1, ACTOR_ALIVE = 2, ACTOR_RESTARTING = 3, ACTOR_DEAD = 4 };
enum actor_flags {
    ACTOR_FLAG_ORDERED = 1,
    ACTOR_FLAG_DETACHED = 2,
    ACTOR_FLAG_IDLE = 4,      /* its worker sleeps, or is about to, with nothing to pop */
    ACTOR_FLAG_TERMINATE = 8, /* the last handle has gone: leave when the mailbox is empty */
    ACTOR_FLAG_KILLED = 16,   /* no restart whatever is left */
    ACTOR_FLAG_UNPLACED = 32, /* ... because its placement group, number `death_detail`, was removed */
    ACTOR_FLAG_KILL = 64,     /* it lives on another machine, and is to be killed there */
    ACTOR_FLAG_HOSTED = 128   /* for another machine, which starts it again: calls that have not begun when it ends are told apart */
};

struct actor_slot {
    _Atomic uint32_t state;
    uint32_t generation;
    uint32_t head_1, tail_1; /* L  mailbox, in order of submission */
    uint32_t n_pending;      /* L */
    uint32_t n_running;      /* L */
    uint32_t worker_1;       /* L  client that serves it */
    uint32_t object_1;       /*    the actor object; freed with the last handle */
    uint32_t task_1;         /* L  the constructor's task, kept for restarts */
    uint32_t death_object_1; /* L  pinned error of the constructor: what every call gets */
    int32_t restarts_left;   /*    -1: for ever */
    int32_t max_task_retries;
    uint32_t max_concurrency;
    uint32_t flags;
    int32_t death_detail;
    uint32_t next_free_1;
    uint64_t name_hash;      /*    of namespace and name, 0: anonymous */
    uint32_t max_pending;    /*    calls queued or running; 0: any number */
    uint16_t group_limit[MAX_GROUPS];   /*    calls that run at a time; 0: any number */
    uint16_t group_running[MAX_GROUPS]; /* L */
    uint32_t checkpoint_1;   /* L  pinned object with which its next life begins */
};

/* ---- clients: any process attached to the segment */
enum client_state {
    CLIENT_FREE = 0,
    CLIENT_ATTACHED = 1,
    CLIENT_DYING = 2 /* does nothing any more; what it leaves behind is being cleared away, page by page. See burial.h */
};
enum client_flags { CLIENT_FLAG_RETIRE = 1 };

struct client_slot {
    _Atomic uint32_t inbox;    /* A  bumped by whoever has news; its sleepers' futex word */
    _Atomic uint32_t sleepers; /* A  threads asleep, or about to sleep, on inbox */
    _Atomic int32_t need;      /* A  seals to go until a wake-up is due; may be too low, never too high */
    int32_t end_code;          /* L  DYING: how its process ended */
    _Atomic uint32_t inbox_of_1; /* A  the client whose inbox it shares, 0: its own */
    uint32_t line_pad[11];
    _Atomic uint32_t state;
    uint32_t role;
    _Atomic int32_t pid;       /* A  claims the slot */
    uint32_t generation;
    _Atomic uint64_t start_time; /* A  of the process, clock ticks since boot: pids come back */
    uint32_t actor_1;          /* L  actor served */
    _Atomic uint32_t flags;
    uint32_t task_1;           /* L  last task popped, for show; derived */
    uint32_t node;             /*    of a proxy: the last 32 bits of the number of the machine that it stands for; of others 0 */
    uint64_t n_finished;       /* L */
    uint64_t last_seq;         /* L  last task popped, which may have ended: what the process prints late is its */
    uint32_t last_origin;      /* L */
    uint32_t env;              /* L  environment of the process, taken over with its first task */
};

/* ---- resources */

/* What there is to be taken: pool 0 is the node, the others are bundles of placement groups, reserved out of it. The
 * bundles of a group are neighbours; the state and what else belongs to the group is in the first of them, its head. */
enum pool_state {
    POOL_FREE = 0,
    POOL_PENDING = 1,  /* the group waits until all of its bundles fit into the node */
    POOL_RESERVED = 2, /* they do: tasks can run in them */
    POOL_REMOVED = 3,  /* until the last of its tasks has ended */
    POOL_DROPPED = 4   /* removed before it was reserved */
};

/* How a group's bundles are spread over machines; of the strict ones it is a condition. */
enum placement_mode { PLACEMENT_PACK = 0, PLACEMENT_SPREAD = 1, PLACEMENT_STRICT_PACK = 2, PLACEMENT_STRICT_SPREAD = 3 };

/* Of `pool.client_1`, besides clients that stand for other machines. */
#define POOL_HERE 0u
#define POOL_NOWHERE UINT32_MAX      /* not reserved yet, or lost with its machine */
#define POOL_COMING (UINT32_MAX - 1) /* here, says the agent, as soon as there is room */

struct pool {
    uint32_t state;      /* L  head: pool_state */
    uint32_t head;       /*    the group's first pool */
    uint32_t number;     /*    head: identity of the group, and its place in the line; never used again. 0: the node */
    uint32_t n;          /*    head: bundles */
    uint32_t object_1;   /*    head: describes the group; pinned */
    uint32_t owner_1;    /*    head: client with which the group goes, 0: with the session */
    uint32_t mode;       /*    head: placement_mode */
    uint32_t gpu_mask;   /*    devices of the node that are reserved; of another machine's, as many as there are */
    uint32_t client_1;   /* L  which machine it is on */
    uint32_t routed;     /*    head: the agent has said where it is to be */
    uint64_t name_hash;  /*    head: of namespace and name, 0: anonymous */
    int64_t total[MAX_KINDS];
    int64_t available[MAX_KINDS]; /* L */
    int32_t gpu_free[MAX_GPUS];   /* L */
};

/* On which machine a task begins, see route.h. */
enum place_route {
    ROUTE_ANY = 0,    /* here if there is room, else anywhere */
    ROUTE_HERE = 1,   /* here */
    ROUTE_ASKS = 2,   /* where the agent says; here if nobody directs */
    ROUTE_WAITS = 3,  /* where the agent says, and nowhere else */
    ROUTE_PLACED = 4  /* | one of those two: the agent has said, here */
};

struct place { /* where tasks take their resources from: one of `n_pools` neighbours */
    uint16_t pool, n_pools;
    uint16_t captures;   /*    what they submit goes to the same group unless it says otherwise */
    uint16_t route;      /*    place_route */
    char strategy[STRATEGY_SIZE]; /* for the agent: what the route depends on; zeros behind it */
};
#define ON_NODE ((struct place){.n_pools = 1})

struct lane { /* L  ready tasks, of one function as far as the lanes suffice */
    uint32_t head_1, tail_1;
    uint32_t function_1;     /*    whose tasks it holds, or held last */
    uint32_t spare;
    uint64_t turn;           /*    the lane with the lowest is next */
};

struct resource_class {
    int64_t demand[MAX_KINDS];
    int64_t hold[MAX_KINDS]; /* what an actor keeps once constructed */
    struct place place;
    struct lane lanes[N_LANES];
    uint32_t n_ready;        /* L  without cancelled ones */
    uint32_t env;            /*    environment of the process, 0: any that has none; see worker_suits, ENV_TRAVELS */
    uint32_t generation;     /* L  even: given up, so that another shape may come here; see resource_number */
    uint32_t spare;
};

#define ENV_TRAVELS 1u /* in the number of an environment: it names nothing that only this machine has */

/* ---- events, see event.h */
struct event_record {
    uint64_t ticks, seq;
    uint32_t a, b, c;
    uint16_t d;
    uint8_t kind, client;
};

struct header {
    uint64_t magic;
    uint32_t version;
    uint32_t signature; /* of the struct sizes */
    uint64_t size;      /* of the mapping, bytes */
    uint64_t session;   /* random; half of every object id */
    uint32_t n_objects, n_tasks, n_actors, n_events;
    uint64_t classes_offset, clients_offset, actors_offset, objects_offset, tasks_offset, events_offset, readers_offset;
    uint64_t clock_ticks, clock_unix_ns, clock_monotonic_ns; /* of one moment */

    _Alignas(64) _Atomic uint32_t lock; /* 0 free, else lock_word() of the owner, | LOCK_WAITERS */
    uint32_t n_takeovers;               /* L */
    uint32_t lock_grace_ms;             /*    how long an owner other than a driver may stay stopped (a debugger) before it is killed */
    _Atomic int32_t stopped_pid;        /* A  an owner that is stopped right now: everybody waits for it */
    _Atomic uint32_t n_expelled;        /* A  owners that were killed for it ... */
    _Atomic int32_t expelled_pid;       /* A  ... and the last of them */
    _Atomic uint32_t stops_again;       /* A  lock_word() of an owner that was stopped and continued: it stops once it has let go */
    _Alignas(64) uint64_t next_seq;     /* L */
    uint32_t free_object_1, touched_objects; /* L  slots at and above `touched` were never used */
    uint32_t free_task_1, touched_tasks;
    uint32_t free_actor_1, touched_actors;
    uint32_t n_classes, n_kinds;
    uint32_t n_envs;                    /* L  classes ever made that want an environment */
    uint32_t context_1, context_generation; /* L  the object that says what workers find around them when they start */
    uint32_t n_live_objects, n_live_tasks;
    uint64_t n_finished;
    uint32_t n_ready;                   /* L  over all classes */
    uint32_t agent_1;                   /* L  client that wants to know once tasks wait for which there is no room, 0: nobody does */
    uint32_t director_1;                /* L  agent that says where tasks go whose route asks; 0: this is one machine. NO_DIRECTOR_YET, NO_DIRECTOR */
    uint64_t turn;                      /* L  of the lane that was served last */
    uint32_t waking_1;                  /* L  the one idle worker on its way */
    uint64_t idle_notice;               /* L  the scheduler wants to know once more bytes than this lie idle; 0: it does not */
    uint64_t ahead_bytes;               /* L  size of the last large object after which no memory with pages was left for another */
    uint64_t idle[CLIENT_WORDS];        /* L  workers that sleep with nothing to do */
    uint32_t n_placements;              /* L  placement groups ever made */
    uint32_t n_unplaced;                /* L  pending ones */
    uint32_t touched_pools;
    char kind_names[MAX_KINDS][KIND_NAME_SIZE];
    struct arena arena;

    char away_folder[AWAY_FOLDER_SIZE]; /*    where objects go when the arena is full; "": nowhere. Never changes once set */
    uint64_t away_limit;                /* L  most bytes that may lie there */
    uint64_t away_bytes;                /* L  that lie there ... */
    uint32_t n_away;                    /* L  ... of so many objects */
    uint32_t away_hand;                 /* L  where to look next for what could go */
    uint64_t last_file;                 /* L  number of the file begun last */
    uint32_t n_functions_freed;         /* L  objects that were not to be moved, as functions are; workers may keep what they made of them */
    uint32_t n_functions_asked;         /* L  as many when workers were last asked to let go of that */
    uint64_t n_away_freed;              /* L  objects freed while they lay there: their files are to be deleted */
    uint64_t away_notice;               /* L  the scheduler wants to know once so many bytes lie there; 0: it does not */

    _Alignas(64) _Atomic uint64_t event_head; /* L write, A read: records ever written */
    _Atomic uint32_t event_waiting;           /* A  a reader sleeps on it */
    _Alignas(64) _Atomic uint32_t attention;  /* A  the scheduler has something to look at */
    uint32_t scheduler_1;
    _Atomic uint32_t closing;                 /* A  the session ends */
    _Atomic uint32_t corrupt;                 /* A  ... because something has overwritten the segment */
    _Alignas(64) _Atomic uint32_t n_waits;    /* A  grows when somebody begins to wait for objects */
    _Alignas(64) struct pool pools[MAX_POOLS];
};
#define NO_DIRECTOR UINT32_MAX           /* it has left its cluster */
#define NO_DIRECTOR_YET (UINT32_MAX - 1) /* it is part of one, and there is none now */
#define LOCK_WAITERS 0x80000000u
#define LOCK_CLIENT_BITS 9 /* client + 1; above it its slot's generation, so that a successor is not taken for the dead */

static_assert(sizeof(struct object_slot) == 128, "object slots are two cache lines");
static_assert(sizeof(struct object_readers) == 32, "two entries a cache line");
static_assert(sizeof(struct task_slot) == 128, "task slots are two cache lines");
static_assert(sizeof(struct actor_slot) == 128, "actor slots are two cache lines");
static_assert(sizeof(struct client_slot) == 128, "client slots are two cache lines");
static_assert(sizeof(struct event_record) == 32, "event records are half a cache line");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "atomics between processes must be lock-free");

#define LAYOUT_SIGNATURE                                                                                        \
    ((uint32_t)(sizeof(struct header) * 31u + sizeof(struct object_slot) * 7u + sizeof(struct task_slot) * 5u + \
                sizeof(struct actor_slot) * 3u + sizeof(struct client_slot) + sizeof(struct resource_class) +   \
                sizeof(struct event_record) + sizeof(struct object_readers)))

#endif
