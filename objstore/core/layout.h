/* The layout of the shared segment. This file is a format: it alone says what the bytes mean.
 *
 *     header and pools | resource classes | clients | actors | objects | tasks | events | readers | times | arena
 *
 * The segment contains offsets and indices instead of pointers, because each process maps it at an address of its own.
 * Fields have fixed widths; attaching compares a signature of the struct sizes. An index named `..._1` is "index + 1",
 * so that zero-filled memory means "none".
 *
 * Authoritative and derived data. Authoritative are the states and fields of object, task, actor and client slots and
 * of pools, the reference arrays of tasks and objects, and the headers of the arena's chunks. Everything else is
 * derived: free lists, queues, mailboxes, waiting lists, pins, counts, available resources, idle bits, what clients
 * run. recover.c rebuilds it after a process has died inside the lock. This determines the order of writes in every
 * mutation: all fields first, then the state word as the commit; on freeing, the state word first. Death falls between
 * two instructions of one process, and a process that has learned of it sees all writes before that point (liveness.h
 * explains why). So program order (a compiler fence) is enough against death; acquire and release are for live peers.
 *
 * "L" in a comment: read and written under the segment lock. The exchange in segment_unlock and the acquire in
 * segment_lock order these accesses, so their own memory order has no meaning. The states of tasks and actors belong
 * here: they are atomic so that a death leaves the old or the new value, and so that their own worker can look at them
 * without the lock. "A": atomic, without the lock. The counterpart is named where the field is used, or here (writer |
 * reader):
 *
 *     client.pid, start_time, generation   client_attach writes them, then takes the lock
 *                                          | wait_for_lock sees that lock word, then reads them
 *     client.pid, state                    client_died frees the state, then the pid
 *                                          | client_attach reads the pid, then the state
 *     client.state                         client_attach, under the lock, last
 *                                          | a process that sees "attached" reads the rest
 *     client.flags                         under the lock, then a wake-up
 *                                          | should_leave, after reading the inbox
 *     holders                              object_hold, while something else keeps the object alive, which ends under
 *                                          the lock | object_drop
 *     used, n_waits, n_awaited, trust      hints; nothing depends on their order
 *     stopped_pid, n_evicted, evicted_pid  for display; whether to signal is decided by process_signal
 *     closing, corrupt                     written, then all clients are notified
 *                                          | read after the inbox, or again a moment later
 */
#ifndef CELLMESH_LAYOUT_H
#define CELLMESH_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "memory/arena.h"

#define LAYOUT_MAGIC UINT64_C(0x6873656d6c6c6563) /* "cellmesh" */
#define LAYOUT_VERSION 12u

#define MAX_SLOTS (UINT32_MAX / 2) /* objects, tasks: "index + 1" and a mark beyond all indices fit into 32 bits */
#define MAX_CLIENTS 256u           /* bits in `holders` and `waiters` */
#define CLIENT_WORDS (MAX_CLIENTS / 64u)
#define TIMEOUT_GRACE_MS 5000u /* default of header.timeout_grace_ms */
#define MAX_KINDS 16u          /* kinds of resources: CPU, GPU, memory and thirteen custom ones */
#define CLASS_BITS 9
#define MAX_CLASSES (1u << CLASS_BITS) /* resource shapes of tasks and actors at a time */
#define N_LASTING_CLASSES 4u           /* the first ones are never given up, so that plain tasks always have a class */
#define N_LANES 8u                     /* queues of a resource class, by function: they take turns */
#define N_DEPTHS 8u                    /* its queues of tasks that other tasks wait for, by depth */
#define MAX_GPUS 32u                   /* bits in a task's gpu mask */
#define KIND_NAME_SIZE 32u
#define OBJECT_INLINE_SIZE 24u
#define TASK_INLINE_SIZE 40u
#define MAX_POOLS 256u /* the node, and bundles of placement groups */
#define MAX_GROUPS 12u /* concurrency groups of an actor, the unnamed one included */
#define OFFLOAD_FOLDER_SIZE 1024u
#define STRATEGY_SIZE 248u  /* bytes of a scheduling strategy, in the agent's format */
#define RESOURCE_UNIT 10000 /* amounts are kept in ten-thousandths */

enum resource_kind { KIND_CPU = 0, KIND_GPU = 1, KIND_MEMORY = 2 };
enum client_role {
    ROLE_SCHEDULER = 0,
    ROLE_DRIVER = 1,
    ROLE_WORKER = 2,
    ROLE_REMOTE_NODE = 3 /* stands for another machine, see remote_node.h */
};

/* ---- objects: created (PENDING) -> sealed (READY, ERROR, FAILED) -> FREE, generation + 1 */
enum object_state {
    OBJECT_FREE = 0,    /* in the free list */
    OBJECT_PENDING = 1, /* its task has not ended, or the process that puts it is still writing */
    OBJECT_READY = 2,   /* sealed: bytes immutable */
    OBJECT_ERROR = 3,   /* sealed: the bytes describe an error that a task raised */
    OBJECT_FAILED = 4   /* sealed by the system: `failure` says why there is no value */
};
#define OBJECT_STATE_MASK 0xffu
#define OBJECT_HAS_WAITERS 0x100u /* set by a waiter's own read-modify-write, seen by the sealer's exchange */

enum failure_code {
    FAILURE_WORKER_CRASHED = 1, /* detail: -signal or exit status */
    FAILURE_CANCELLED = 2,
    FAILURE_ACTOR_DIED = 3, /* detail: as worker crashed, 0 when ended on purpose */
    FAILURE_ACTOR_UNAVAILABLE = 4,
    FAILURE_OUT_OF_MEMORY = 5,
    FAILURE_OBJECT_LOST = 6,
    FAILURE_STORE_FULL = 7,      /* the result did not fit */
    FAILURE_STREAM_ENDED = 8,    /* an item that its task never produced; readers of the stream do not see it */
    FAILURE_UNPLACED = 9,        /* its placement group was removed; detail: the group's number */
    FAILURE_ACTOR_UNPLACED = 10, /* the placement group of its actor was removed */
    FAILURE_NODE_DIED = 11,      /* the machine that ran it was lost */
    FAILURE_CANNOT_LEAVE = 12,   /* it was to run on another machine, and cannot leave this one */
    /* the only machine that may run it is not a member of the cluster; detail: its resource class */
    FAILURE_UNROUTED = 13,
    FAILURE_TIMED_OUT = 14, /* it ran longer than allowed and was killed; detail: the limit in ms */
    /* it was to run on another machine, and needs a shared object of this one; detail: the object's slot */
    FAILURE_SHARED_STAYS = 15,
    FAILURE_TOO_DEEP = 16 /* all processes waited for such tasks; detail: how many processes */
};

struct object_slot {
    _Atomic uint32_t state;   /* A  object_state | HAS_WAITERS */
    uint32_t generation;      /* L  bumped on free: no ABA */
    uint32_t first_waiting_1; /* L  tasks whose dependency cursor is at this object; in a free slot: next free */
    /* L  by tasks (dependency, nested ref, function, result), actors, containing objects */
    uint32_t pins;
    /* L  of the payload in the arena, 0: inline; | OBJECT_ABSENT: not in memory. A read, see offload.h */
    _Atomic uint64_t offset;
    uint64_t size;                          /*    bytes of the encoded value */
    _Atomic uint64_t holders[CLIENT_WORDS]; /* A set, L clear: clients that have a ref */
    _Atomic uint64_t waiters[CLIENT_WORDS]; /* A  clients to notify at sealing */
    union {
        unsigned char inline_data[OBJECT_INLINE_SIZE]; /* READY/ERROR with offset 0 */
        struct {                                       /* READY/ERROR in the arena, or absent */
            uint32_t n_refs; /*    refs follow the value; a stream counts them itself, in the arena: REFS_OF_STREAM */
            uint32_t actor_1;
            uint16_t mover_1;      /* L  client that offloads it or reads it back, a hint */
            uint16_t stays;        /* L  never offloaded, a hint */
            _Atomic uint32_t used; /* A  read since the last search for something to offload, a hint */
        } arena;
        struct {
            uint32_t task_1;
        } pending; /* PENDING: a hint, see task_producing; a sealer overwrites it */
        struct {
            uint32_t code;
            int32_t detail;
            uint64_t seq;
        } failure; /* FAILED */
    } u;
    /* seq of the producing task, or a put's number with bit 63 set, or the remote node that sends it:
     * CREATED_BY_REMOTE_NODE */
    uint64_t creator;
};
#define PUT_BIT (UINT64_C(1) << 63)
#define CREATED_BY_REMOTE_NODE (PUT_BIT | UINT64_C(1) << 62) /* | its generation << 16 | its index */
/* In `offset`: the bytes are not in memory. The rest is the number of a file, ... */
#define OBJECT_ABSENT (UINT64_C(1) << 63)
/* ... or, with this bit too, the remote node that has them: generation << 16 | index of the client */
#define OBJECT_REMOTE (UINT64_C(1) << 62)
/* In `n_refs`, what the bytes are instead of a value with so many references: */
#define REFS_OF_STREAM UINT32_MAX       /* a stream */
#define REFS_OF_SHARED (UINT32_MAX - 1) /* without references, and never final: any holder may write to them */
#define REFS_OF_SYNC (UINT32_MAX - 2)   /* likewise, with a struct shared_sync at the front; shared_sync.h */

/* The clients that are reading the bytes of an object in the arena; only of objects that may be offloaded. See
 * offload.h */
struct object_readers {
    _Atomic uint64_t clients[CLIENT_WORDS]; /* A */
};

/* The bytes of a stream object. Its references follow: the result of the task, then the items. See stream.h */
struct stream {
    uint32_t n, capacity; /* L  references; a stream grows by copying, so that all of this changes in one store */
    uint64_t first;       /* L  number of the first item in the list */
    uint64_t next;        /* L  number of the next item to hand out */
    uint32_t limit;       /*    items that the task may be ahead, 0: any number */
    uint32_t waiting_1;   /* L  client of the task that waits for room */
    uint32_t error_told;  /* L  the error that ended the task was handed out as the last item */
    uint32_t spare;
};

/* The bytes of a shared object on which processes wait for each other. See shared_sync.h */
struct shared_sync {
    unsigned char text[64];     /*    what it is, as an encoded text: what readers of the object get */
    uint32_t kind;              /*    sync_kind */
    uint32_t n;                 /*    of a barrier: how many come together */
    _Atomic uint64_t word;      /* A  of a barrier: who has come; of a counter: its value; of a condition: its owner */
    _Atomic uint32_t news;      /* A  changes when those who wait are to look again */
    _Atomic uint32_t sleepers;  /* A  on `news` */
    _Atomic uint32_t lock_news; /* A  the same for those who want to own a condition */
    _Atomic uint32_t lock_sleepers;
    uint32_t n_waiting;        /*    for a condition; both belong to its owner */
    uint32_t n_notified;       /*    that many of them are to go on */
    _Atomic int32_t broken_by; /* A  pid of the process that died, or, below zero, that aborted it */
    uint32_t spare;
    _Atomic uint64_t members[CLIENT_WORDS]; /* A  of a barrier: clients that have joined it */
};

/* ---- tasks */
enum task_state {
    TASK_FREE = 0,
    TASK_WAITING = 1,   /* in the waiting list of its dependency number `cursor` (actor calls: also in the mailbox) */
    TASK_READY = 2,     /* in the queue of its class, or in its actor's mailbox */
    TASK_RUNNING = 3,   /* on client `worker`, in no list */
    TASK_CANCELLED = 4, /* results sealed; still in a waiting list or mailbox, which drops it when it gets there */
    TASK_HELD = 5,      /* the finished constructor of an actor, kept for restarts */
    TASK_DELAYED = 6    /* waits for its next attempt, see timer.h; a call is in its actor's mailbox */
};
enum task_flags {
    TASK_FLAG_ACTOR_CREATION = 1,
    TASK_FLAG_HIDDEN = 2,   /* writes no events */
    TASK_FLAG_ENV = 4,      /* runs inside the enter and leave hooks */
    TASK_FLAG_CANCEL = 8,   /* asked to stop while running */
    TASK_FLAG_BLOCKED = 16, /* sleeps in get or wait; its CPU has been given back */
    TASK_FLAG_RETRY_EXCEPTIONS = 32,
    TASK_FLAG_TIMED = 64,     /* has an entry in the table of times */
    TASK_FLAG_LOOSE = 128,    /* of a call: cancelled, and dropped by one of its two lists */
    TASK_FLAG_STREAM = 256,   /* a generator: its last ref is the stream object */
    TASK_FLAG_REMOTE = 512,   /* runs on another machine: holds no resources of this one */
    TASK_FLAG_STAYS = 1024,   /* came from another machine: is not sent to a third one */
    TASK_FLAG_RETURNS = 2048, /* blocked, and what it waited for is there: it waits for its CPU */
    TASK_OOM_SHIFT = 12       /* the upper bits: how often its worker was killed because memory ran out */
};
#define TASK_OOM_MAX 15u

struct task_slot {
    _Atomic uint32_t state;
    uint32_t next_1;         /* L  queue, mailbox or free list */
    uint32_t next_waiting_1; /* L  waiting list of an object; in a queue: the previous task */
    uint32_t result_1;       /*    first return's object slot; further ones follow the refs */
    uint32_t function;       /*    object slot of the function */
    uint16_t n_returns;
    uint16_t attempt; /* L  0: the first */
    uint16_t resource_class;
    uint16_t worker;  /* L  client that runs it */
    uint32_t actor_1; /*    the actor whose call or constructor it is */
    uint32_t n_refs;  /*    refs[0..n_dependencies) are dependencies, the others are nested in the arguments */
    uint32_t n_dependencies;
    uint32_t cursor;     /* L  the dependencies before it are sealed */
    uint32_t origin;     /*    the cell that submitted it */
    int16_t max_retries; /*    -1: for ever */
    uint16_t flags;      /* L  task_flags */
    uint32_t arguments_size;
    /* L  the submitting client; MAX_CLIENTS once it has died, as the next client in its slot is another caller */
    uint16_t caller : 9;
    uint16_t depth : 4;     /* L  how many tasks deep it is waited for, N_DEPTHS at most; 0: by no task */
    uint16_t asked_for : 1; /* L  a program waits for it: it goes to the front of its lane */
    uint16_t begun : 1;     /* L  of one that was sent to another machine: which has said that it runs there */
    uint16_t in_place : 1;  /* L  it may begin through a full gate: the task that waits for it went through that */
    /*    of a call: its concurrency group; of a task: its worker leaves after so many calls, 0: never */
    uint16_t group;
    uint32_t gpu_mask; /* L  the devices it holds while it runs */
    uint64_t offset;   /*    of refs + further returns + arguments in the arena, 0: inline */
    uint64_t seq;      /*    identity and order */
    uint64_t parent;   /*    seq of the submitting task, 0: the driver */
    unsigned char inline_data[TASK_INLINE_SIZE];
};

/* Times of the task with the same index, if it has TASK_FLAG_TIMED; see timer.h. In ns of CLOCK_MONOTONIC. */
struct time_limits {
    uint32_t timeout_ms;      /*    limit of one attempt, 0: none */
    uint32_t delay_ms;        /*    delay before the first retry, 0: none; doubled for each further one ... */
    uint32_t most_delay_ms;   /*    ... up to this */
    uint32_t retries_timeout; /*   an attempt that timed out may be retried */
};
struct task_times {
    struct time_limits limits;
    uint64_t since;       /* L  start of this attempt's code */
    uint64_t due;         /* L  0: nothing is due */
    uint16_t interrupted; /* L  the attempt timed out and was interrupted ... */
    uint16_t timed_out;   /* L  ... and that is why it has TASK_FLAG_CANCEL */
    uint32_t place_1;     /* L  its place in the heap; derived */
    uint32_t heap_1;      /* L  the task at this place of the heap; derived */
    uint32_t spare;
};

/* ---- actors */
enum actor_state { ACTOR_FREE = 0, ACTOR_PENDING = 1, ACTOR_ALIVE = 2, ACTOR_RESTARTING = 3, ACTOR_DEAD = 4 };
enum actor_flags {
    ACTOR_FLAG_ORDERED = 1,
    ACTOR_FLAG_DETACHED = 2,
    ACTOR_FLAG_IDLE = 4,      /* its worker sleeps, or is about to, with no call to take */
    ACTOR_FLAG_TERMINATE = 8, /* the last handle has gone: it ends when the mailbox is empty */
    ACTOR_FLAG_KILLED = 16,   /* no restart, however many are left */
    ACTOR_FLAG_UNPLACED = 32, /* ... because its placement group, number `death_detail`, was removed */
    ACTOR_FLAG_KILL = 64,     /* it lives on another machine and is to be killed there */
    /* its home is another machine, which restarts it: calls that had not begun when it ended are reported as such */
    ACTOR_FLAG_HOSTED = 128,
    ACTOR_FLAG_EXITED = 256, /* KILLED by itself */
    /* calls that may not be retried fail when it restarts, and until it has restarted: they do not wait for it */
    ACTOR_FLAG_REFUSES = 512
};

struct actor_slot {
    _Atomic uint32_t state;
    uint32_t generation;
    uint32_t head_1, tail_1; /* L  the mailbox, in order of submission */
    uint32_t n_pending;      /* L */
    uint32_t n_running;      /* L */
    uint32_t worker_1;       /* L  the client that serves it */
    uint32_t object_1;       /*    the actor object; freed with the last handle */
    uint32_t task_1;         /* L  the constructor's task, kept for restarts */
    uint32_t death_object_1; /* L  the pinned error of the constructor, which every call gets */
    int32_t restarts_left;   /*    -1: for ever */
    int32_t max_task_retries;
    uint32_t max_concurrency;
    uint32_t flags;
    int32_t death_detail;
    uint32_t next_free_1;
    uint64_t name_hash;                 /*    of namespace and name, 0: anonymous */
    uint32_t max_pending;               /*    calls queued or running; 0: any number */
    uint32_t group_limit[MAX_GROUPS];   /*    calls that run at a time; 0: any number */
    uint32_t group_running[MAX_GROUPS]; /* L */
    uint32_t checkpoint_1;              /* L  the pinned object from which it restarts */
    uint32_t line_pad[4];
};

/* ---- clients: processes attached to the segment, and remote nodes */
enum client_state {
    CLIENT_FREE = 0,
    CLIENT_ATTACHED = 1,
    CLIENT_DYING = 2 /* its process has ended, and it is being reaped page by page. See reap.h */
};
enum client_flags {
    CLIENT_FLAG_RETIRE = 1,
    CLIENT_FLAG_LEFT = 2 /* DYING: it ended in good order, with nothing under way */
};

struct client_slot {
    _Atomic uint32_t inbox;      /* A  incremented by each notifier; the futex word of its sleepers */
    _Atomic uint32_t sleepers;   /* A  threads that sleep on the inbox, or are about to */
    _Atomic int32_t need;        /* A  seals until the next wake-up is due; may be too low, never too high */
    int32_t end_code;            /* L  DYING: how its process ended */
    _Atomic uint32_t inbox_of_1; /* A  the client whose inbox it shares, 0: it has its own */
    _Atomic uint32_t seals;      /* A  incremented with the inbox, but not for work that has come */
    _Atomic uint32_t watchers;   /* A  threads that sleep on `seals`, or are about to */
    uint32_t line_pad[9];
    _Atomic uint32_t state;
    uint32_t role;
    _Atomic int32_t pid;         /* A  claims the slot */
    _Atomic uint32_t generation; /* A  how many clients have had this slot */
    _Atomic uint64_t start_time; /* A  of the process, in clock ticks since boot, as pids are reused */
    uint32_t actor_1;            /* L  the actor that it serves */
    _Atomic uint32_t flags;
    uint32_t task_1; /* L  the last task taken, for display; derived */
    /*    of a remote node: the last 32 bits of its machine's number; else 0 */
    uint32_t node;
    uint64_t n_finished; /* L */
    /* L  the last task taken, which may have ended: late output of the process is attributed to it */
    uint64_t last_seq;
    uint32_t last_origin; /* L */
    uint32_t env;         /* L  the environment of the process, taken from its first task */
};

/* ---- resources */

/* Amounts that tasks can take. Pool 0 is the node; the others are bundles of placement groups, reserved out of it. The
 * bundles of a group are adjacent. The first, its head, has the state and the other fields of the group. */
enum pool_state {
    POOL_FREE = 0,
    POOL_PENDING = 1,  /* the group waits until all of its bundles fit into the node */
    POOL_RESERVED = 2, /* its bundles are reserved: tasks can run in them */
    POOL_REMOVED = 3,  /* removed; its last tasks have not ended yet */
    POOL_DROPPED = 4   /* removed before it was reserved */
};

/* How the bundles of a group are spread over machines. The strict modes are conditions, the others preferences. */
enum placement_mode {
    PLACEMENT_PACK = 0,
    PLACEMENT_SPREAD = 1,
    PLACEMENT_STRICT_PACK = 2,
    PLACEMENT_STRICT_SPREAD = 3
};

/* Values of `pool.client_1` besides remote nodes. */
#define POOL_HERE 0u
#define POOL_NOWHERE UINT32_MAX      /* not reserved yet, or its machine was lost */
#define POOL_COMING (UINT32_MAX - 1) /* assigned here by the agent, as soon as there is room */

struct pool {
    uint32_t state;     /* L  head: pool_state */
    uint32_t head;      /*    the first pool of the group */
    uint32_t number;    /*    head: identity of the group and its place in the line; never reused. 0: the node */
    uint32_t n;         /*    head: number of bundles */
    uint32_t object_1;  /*    head: describes the group; pinned */
    uint32_t owner_1;   /*    head: the client with whose end the group ends, 0: the session's end */
    uint32_t mode;      /*    head: placement_mode */
    uint32_t gpu_mask;  /*    the reserved devices of the node; of another machine, as many bits as devices */
    uint32_t client_1;  /* L  its machine */
    uint32_t routed;    /*    head: the agent has decided where it is */
    uint64_t name_hash; /*    head: of namespace and name, 0: anonymous */
    int64_t total[MAX_KINDS];
    int64_t available[MAX_KINDS]; /* L */
    int32_t gpu_free[MAX_GPUS];   /* L */
    int64_t kept[MAX_KINDS];      /* L  what living actors keep, and of the node what bundles keep */
    int64_t awaited; /* L  CPUs for blocked tasks that can go on: they come before tasks that would begin */
};

/* Resources that tasks of other classes leave free for a task that would otherwise never begin, see resource.h.
 * Derived: it starts over after a death. */
struct reservation {
    uint32_t class_1, pool;
    uint64_t until; /* ticks: it lapses then, as the tasks that hold the rest may never end */
    uint64_t next;  /* ticks: no new one before */
    uint64_t span;  /* ticks: length of the next one, 0: the first */
};

/* On which machine a task begins, see route.h. */
enum place_route {
    ROUTE_ANY = 0,   /* here if there is capacity, else anywhere */
    ROUTE_HERE = 1,  /* here */
    ROUTE_ASKS = 2,  /* where the agent decides; here if there is no agent */
    ROUTE_WAITS = 3, /* where the agent decides, and nowhere else */
    ROUTE_PLACED = 4 /* | one of the two above: the agent has decided, here */
};

struct place { /* where tasks take their resources from: one of `n_pools` adjacent pools */
    uint16_t pool, n_pools;
    uint16_t captures;            /*    tasks that they submit inherit the group by default */
    uint16_t route;               /*    place_route */
    char strategy[STRATEGY_SIZE]; /* for the agent: the strategy behind the route, padded with zeros */
};
#define ON_NODE ((struct place){.n_pools = 1})

struct lane { /* L  a queue of ready tasks, of one function as far as there are enough lanes */
    uint32_t head_1, tail_1;
    uint32_t function_1; /*    the function whose tasks it holds or held last */
    uint32_t spare;
    uint64_t turn; /*    the lane with the lowest turn is next */
};

/* When a task may begin, besides the resources that it needs. gate.h has what is counted per function. */
struct terms {
    /*    tasks with the same number are counted together, across classes; 0: not counted */
    uint64_t function;
    uint64_t interval; /*    ticks between two starts, at least */
    uint32_t most;     /*    tasks that run at a time, 0: any number */
    int32_t priority;  /*    higher ones begin first */
};

struct resource_class {
    int64_t demand[MAX_KINDS];
    int64_t hold[MAX_KINDS]; /* what an actor keeps once it is constructed */
    struct place place;
    struct lane lanes[N_LANES + N_DEPTHS]; /* the further ones by depth, from 1 on */
    uint32_t depths;                       /* L  bits of those that hold tasks */
    uint32_t n_in_place;                   /* L  ready tasks that may begin through a full gate */
    uint32_t n_ready;                      /* L  not counting cancelled ones */
    uint32_t env;        /*    environment that the worker must have, 0: none; see worker_suits, ENV_TRAVELS */
    uint32_t generation; /* L  even: given up, and another shape may use the slot; see resource_number */
    uint32_t gate_1;     /*    the gate of the function in `terms`, 0: none */
    struct terms terms;
};

struct gate {          /* L  counts of the tasks of one function; see gate.h */
    uint64_t function; /*    its function; the gate is free if no class names it */
    uint64_t last;     /*    ticks: the last start, 0: none yet */
    uint32_t n_running;
    uint32_t spare;
};

#define ENV_TRAVELS 1u /* in the number of an environment: it needs nothing that only this machine has */

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
    uint64_t clock_ticks, clock_unix_ns, clock_monotonic_ns; /* all read at the same moment */

    _Alignas(64) _Atomic uint32_t lock; /* 0 free, else lock_word() of the owner, | LOCK_WAITERS */
    uint32_t n_takeovers;               /* L */
    /*    how long an owner that is no driver may stay stopped (a debugger) before it is evicted */
    uint32_t lock_grace_ms;
    _Atomic int32_t stopped_pid; /* A  the owner, while it is stopped and others wait for it */
    _Atomic uint32_t n_evicted;  /* A  owners killed because they were stopped ... */
    _Atomic int32_t evicted_pid; /* A  ... and the last of them */
    /* A  lock_word() of a stopped owner that was continued: it stops again once it has unlocked */
    _Atomic uint32_t stops_again;
    _Alignas(64) uint64_t next_seq;          /* L */
    uint32_t free_object_1, touched_objects; /* L  slots from `touched` on were never used */
    uint32_t free_task_1, touched_tasks;
    uint32_t free_actor_1, touched_actors;
    uint32_t n_classes, n_kinds;
    uint32_t n_envs; /* L  classes ever made with an environment */
    /* L  the object with the environment in which workers start; whether it is another is looked at without */
    _Atomic uint32_t context_1, context_generation;
    uint32_t n_live_objects, n_live_tasks;
    uint32_t n_gates; /* L  gates ever used */
    uint64_t n_finished;
    uint32_t n_ready; /* L  over all classes */
    uint32_t n_deep;  /* L  ... of these, in lanes by depth */
    /* L  the client to wake once tasks wait without capacity for them, 0: none */
    uint32_t agent_1;
    /* L  the agent that decides where tasks with ROUTE_ASKS or ROUTE_WAITS run; 0: there is no cluster.
     * NO_DIRECTOR_YET, NO_DIRECTOR */
    uint32_t director_1;
    uint32_t has_terms; /* L  some class has had terms; 0: terms need not be looked at */
    uint64_t turn;      /* L  the highest turn of a lane that was served */
    uint32_t waking_1;  /* L  the idle worker that has been woken and has not looked yet */
    /* L  some of the available resources are held back, for `reserved` or `returning` */
    uint32_t holds_back;
    /* L  the scheduler is told once more bytes than this are idle, 0: never */
    uint64_t idle_notice;
    /* L  size of the last large object that left no memory with pages for another */
    uint64_t ahead_bytes;
    uint64_t idle[CLIENT_WORDS]; /* L  workers that sleep without a task */
    uint32_t n_placements;       /* L  placement groups ever made */
    uint32_t n_unplaced;         /* L  pending ones */
    uint32_t touched_pools;
    struct reservation reserved;      /* L */
    uint64_t returning[CLIENT_WORDS]; /* L  clients whose task waits for its CPU, see TASK_FLAG_RETURNS */
    uint64_t next_start;              /* L  ticks: when the scheduler looks whether a gate has opened, 0: never */
    uint64_t times_offset;
    uint64_t timers_at;        /* L  when the scheduler looks at the times of tasks, 0: never */
    uint32_t n_timers;         /* L  in the heap */
    uint32_t timeout_grace_ms; /*    how long a task that timed out may take to end after its interruption */
    char kind_names[MAX_KINDS][KIND_NAME_SIZE];
    struct arena arena;

    /*    where objects are offloaded to when the arena is full, "": nowhere. Never changes once set */
    char offload_folder[OFFLOAD_FOLDER_SIZE];
    uint64_t offload_limit;   /* L  bytes that may be offloaded, at most */
    uint64_t offloaded_bytes; /* L  bytes that are ... */
    uint32_t n_offloaded;     /* L  ... of so many objects */
    uint32_t offload_hand;    /* L  where the search for something to offload goes on */
    uint64_t last_file;       /* L  number of the last file begun */
    /* L  freed objects with `stays`, such as functions; workers may cache what they made of them */
    uint32_t n_functions_freed;
    uint32_t n_functions_asked; /* L  the same when workers were last asked to drop those caches */
    uint64_t n_offloaded_freed; /* L  objects freed while offloaded: their files are to be deleted */
    /* L  the scheduler is told once so many bytes are offloaded, 0: never */
    uint64_t offload_notice;
    uint64_t shared_bytes; /* L  bytes that are shared ... */
    uint32_t n_shared;     /* L  ... in so many objects */
    uint32_t spare_shared;

    _Alignas(64) _Atomic uint64_t event_head; /* L write, A read: records ever written */
    _Atomic uint32_t event_waiting;           /* A  some reader sleeps on it */
    _Alignas(64) _Atomic uint32_t attention;  /* A  the scheduler has something to look at */
    uint32_t scheduler_1;
    _Atomic uint32_t closing;              /* A  the session ends */
    _Atomic uint32_t corrupt;              /* A  ... because something has overwritten the segment */
    _Alignas(64) _Atomic uint32_t n_waits; /* A  incremented when a client begins to wait for objects */
    _Alignas(64) struct pool pools[MAX_POOLS];
    struct gate gates[MAX_CLASSES];
};
#define NO_DIRECTOR UINT32_MAX           /* it has left the cluster */
#define NO_DIRECTOR_YET (UINT32_MAX - 1) /* there is a cluster, and no agent at the moment */
#define LOCK_WAITERS 0x80000000u
/* client + 1; the generation of its slot is above it, so that a successor is not mistaken for the dead client */
#define LOCK_CLIENT_BITS 9

static_assert(sizeof(struct object_slot) == 128, "object slots are two cache lines");
static_assert(sizeof(struct object_readers) == 32, "two entries a cache line");
static_assert(sizeof(struct task_slot) == 128, "task slots are two cache lines");
static_assert(sizeof(struct task_times) == 48, "entries share cache lines");
static_assert(sizeof(struct actor_slot) == 192, "actor slots are three cache lines");
static_assert(sizeof(struct client_slot) == 128, "client slots are two cache lines");
static_assert(sizeof(struct event_record) == 32, "event records are half a cache line");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "atomics between processes must be lock-free");

#define LAYOUT_SIGNATURE                                                                                        \
    ((uint32_t)(sizeof(struct header) * 31u + sizeof(struct object_slot) * 7u + sizeof(struct task_slot) * 5u + \
                sizeof(struct actor_slot) * 3u + sizeof(struct client_slot) + sizeof(struct resource_class) +   \
                sizeof(struct event_record) + sizeof(struct object_readers) + sizeof(struct gate) +             \
                sizeof(struct task_times) + sizeof(struct shared_sync)))

#endif
