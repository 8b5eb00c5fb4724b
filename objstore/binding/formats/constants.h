/* The numbers and words of the core that Python knows, exported once. Python has no copy of them. */
#ifndef CELLMESH_BINDING_CONSTANTS_H
#define CELLMESH_BINDING_CONSTANTS_H

#include "binding.h"

/* Words for states, as listings and errors use them. A number that is none gives "?". */
const char *actor_state_name(uint32_t state);
const char *object_state_name(uint32_t state);
/* `state`: an enum task_state, or one that only listings know: the results are sealed, and the worker has yet to say
 * that it is done. "free" and "held" are never shown. */
enum shown_task_state { SHOWN_FINISHED = TASK_DELAYED + 1, SHOWN_FAILED };
const char *task_state_name(uint32_t state);
const char *role_name(uint32_t role);
const char *failure_name(uint32_t code);

/* What RemoteNode.inspect says of an object's bytes. */
enum object_place { PLACE_HERE = 0, PLACE_REMOTE = 1, PLACE_LOST = 2 };
/* What Client.groups says of a bundle, and Client.assign takes; from 1 on: the client n - 1. */
enum bundle_place { BUNDLE_HERE = 0, BUNDLE_NOWHERE = -1, BUNDLE_COMING = -2 };
/* What RemoteNode.item answers in place of a slot. */
enum item_answer { ITEM_EXISTS = -1, ITEM_UNWANTED = -2 };
/* How far a task is, of Client.progress. */
enum progress {
    PROGRESS_GONE = 0,   /* or it has made an actor that holds nothing */
    PROGRESS_WAITS = 1,  /* for its arguments */
    PROGRESS_QUEUED = 2, /* for room */
    PROGRESS_RUNS = 3,   /* or it has made an actor that lives */
    PROGRESS_SLEEPS = 4  /* until others have ended, or until it is tried again */
};
/* In place of an exit code, of a client whose machine was lost. */
#define DIED_WITH_NODE (-2000)

int constants_init(PyObject *module);

#endif
