/* What the files of the type `RemoteNode` share. */
#ifndef CELLMESH_BINDING_REMOTE_NODE_H
#define CELLMESH_BINDING_REMOTE_NODE_H

#include "binding.h"

typedef struct {
    PyObject_HEAD
    ClientObject *client; /* the agent's own, whose mapping this is */
    struct segment s;
    bool attached;
} RemoteNodeObject;

enum { MOST_TASKS = 1024 }; /* that are taken at a time */

/* -1: an exception. Each checks that the remote node is usable. */
int remote_usable(RemoteNodeObject *remote);
int parse_slot(RemoteNodeObject *remote, PyObject *number, uint32_t *slot);
int parse_running(RemoteNodeObject *remote, PyObject *number, uint32_t *task);

/* A list of slots as an array, to be freed. `n_more` elements have room behind them. */
uint32_t *parse_slots(RemoteNodeObject *remote, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n);

/* A value with its refs in the arena, which is not visible yet; 0: an exception. */
uint64_t remote_place_value(RemoteNodeObject *remote, const Py_buffer *bytes, const uint32_t *refs, Py_ssize_t n);
PyObject *list_of(const uint32_t *slots, Py_ssize_t n);

/* Tasks, see remote/tasks.c. */
PyObject *describe_tasks(RemoteNodeObject *remote, const uint32_t *tasks, uint32_t n);
PyObject *remote_take_tasks(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_kept(RemoteNodeObject *remote, PyObject *resource_class);
PyObject *remote_shape(RemoteNodeObject *remote, PyObject *resource_class);
PyObject *remote_results(RemoteNodeObject *remote, PyObject *task);
PyObject *remote_finish(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_began(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_return_task(RemoteNodeObject *remote, PyObject *task);
PyObject *remote_cancelled(RemoteNodeObject *remote, PyObject *tasks);
PyObject *remote_submit(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_cancel(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_withdraw(RemoteNodeObject *remote, PyObject *args);

/* Objects, see remote/objects.c. */
PyObject *remote_create(RemoteNodeObject *remote, PyObject *unused);
PyObject *remote_seal(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_seal_failed(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_seal_remote(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_move(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_inspect(RemoteNodeObject *remote, PyObject *object);
PyObject *remote_shared_error(RemoteNodeObject *remote, PyObject *object);
PyObject *remote_read(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_hold(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_generation(RemoteNodeObject *remote, PyObject *object);
PyObject *remote_drop(RemoteNodeObject *remote, PyObject *objects);
PyObject *remote_await(RemoteNodeObject *remote, PyObject *object);
PyObject *remote_sealed(RemoteNodeObject *remote, PyObject *objects);
PyObject *remote_unused(RemoteNodeObject *remote, PyObject *objects);
PyObject *remote_wanted(RemoteNodeObject *remote, PyObject *objects);
PyObject *remote_begin(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_fill(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_peek(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_end(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_transfer(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_transferred(RemoteNodeObject *remote, PyObject *args);

/* Actors, see remote/actors.c. The first: index + 1 of the one that an object stands for, 0: it is a value. */
uint32_t remote_actor_of(const RemoteNodeObject *remote, uint32_t slot);
int parse_actor_object(RemoteNodeObject *remote, PyObject *object, uint32_t *actor_1);
PyObject *remote_actor(RemoteNodeObject *remote, PyObject *object);
PyObject *remote_host_actor(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_make_stand_in(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_bind(RemoteNodeObject *remote, PyObject *task);
PyObject *remote_construction_failed(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_lose_actor(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_kill_actor(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_calls(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_actor_news(RemoteNodeObject *remote, PyObject *actors);
PyObject *remote_checkpoint(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_checkpoints(RemoteNodeObject *remote, PyObject *objects);
PyObject *remote_find_actor(RemoteNodeObject *remote, PyObject *args);

/* Generators, see remote/streams.c. */
PyObject *remote_stream_limit(RemoteNodeObject *remote, PyObject *task);
PyObject *remote_item(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_taken(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_ahead(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_advance(RemoteNodeObject *remote, PyObject *args);

/* Placement groups, see remote/groups.c. */
PyObject *remote_host_group(RemoteNodeObject *remote, PyObject *args);
PyObject *remote_bundle(RemoteNodeObject *remote, PyObject *task);
PyObject *remote_block(RemoteNodeObject *remote, PyObject *task);

#endif
