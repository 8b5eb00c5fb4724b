/* What the files of the type `Proxy` share. */
#ifndef CELLMESH_PROXY_OBJECT_H
#define CELLMESH_PROXY_OBJECT_H

#include "binding.h"

typedef struct {
    PyObject_HEAD
    ClientObject *client; /* the agent's own, whose mapping this is */
    struct segment s;
    bool attached;
} ProxyObject;

enum { MOST_TASKS = 1024 }; /* that are taken at a time */

/* -1: an exception. Whoever parses has seen to it that the proxy is usable. */
int proxy_usable(ProxyObject *proxy);
int parse_slot(ProxyObject *proxy, PyObject *number, uint32_t *slot);
int parse_running(ProxyObject *proxy, PyObject *number, uint32_t *task);

/* A list of slots as an array, to be freed. `n_more` elements have room behind them. */
uint32_t *parse_slots(ProxyObject *proxy, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n);

/* A value with its refs in the arena, which nobody sees yet; 0: an exception. */
uint64_t proxy_place_value(ProxyObject *proxy, const Py_buffer *bytes, const uint32_t *refs, Py_ssize_t n);
PyObject *list_of(const uint32_t *slots, Py_ssize_t n);

/* Tasks, see proxy_tasks.c. */
PyObject *describe_tasks(ProxyObject *proxy, const uint32_t *tasks, uint32_t n);
PyObject *proxy_take_tasks(ProxyObject *proxy, PyObject *args);
PyObject *proxy_kept(ProxyObject *proxy, PyObject *resource_class);
PyObject *proxy_shape(ProxyObject *proxy, PyObject *resource_class);
PyObject *proxy_results(ProxyObject *proxy, PyObject *task);
PyObject *proxy_finish(ProxyObject *proxy, PyObject *args);
PyObject *proxy_began(ProxyObject *proxy, PyObject *args);
PyObject *proxy_return_task(ProxyObject *proxy, PyObject *task);
PyObject *proxy_cancelled(ProxyObject *proxy, PyObject *tasks);
PyObject *proxy_submit(ProxyObject *proxy, PyObject *args);
PyObject *proxy_cancel(ProxyObject *proxy, PyObject *args);
PyObject *proxy_withdraw(ProxyObject *proxy, PyObject *args);

/* Objects, see proxy_objects.c. */
PyObject *proxy_create(ProxyObject *proxy, PyObject *unused);
PyObject *proxy_seal(ProxyObject *proxy, PyObject *args);
PyObject *proxy_seal_failed(ProxyObject *proxy, PyObject *args);
PyObject *proxy_seal_elsewhere(ProxyObject *proxy, PyObject *args);
PyObject *proxy_move(ProxyObject *proxy, PyObject *args);
PyObject *proxy_look(ProxyObject *proxy, PyObject *object);
PyObject *proxy_read(ProxyObject *proxy, PyObject *args);
PyObject *proxy_hold(ProxyObject *proxy, PyObject *args);
PyObject *proxy_generation(ProxyObject *proxy, PyObject *object);
PyObject *proxy_drop(ProxyObject *proxy, PyObject *objects);
PyObject *proxy_await(ProxyObject *proxy, PyObject *object);
PyObject *proxy_sealed(ProxyObject *proxy, PyObject *objects);
PyObject *proxy_unused(ProxyObject *proxy, PyObject *objects);
PyObject *proxy_wanted(ProxyObject *proxy, PyObject *objects);
PyObject *proxy_begin(ProxyObject *proxy, PyObject *args);
PyObject *proxy_fill(ProxyObject *proxy, PyObject *args);
PyObject *proxy_peek(ProxyObject *proxy, PyObject *args);
PyObject *proxy_end(ProxyObject *proxy, PyObject *args);
PyObject *proxy_transfer(ProxyObject *proxy, PyObject *args);
PyObject *proxy_transferred(ProxyObject *proxy, PyObject *args);

/* Actors, see proxy_actors.c. The first: index + 1 of the one that an object stands for, 0: it is a value. */
uint32_t proxy_actor_of(const ProxyObject *proxy, uint32_t slot);
int parse_actor_object(ProxyObject *proxy, PyObject *object, uint32_t *actor_1);
PyObject *proxy_actor(ProxyObject *proxy, PyObject *object);
PyObject *proxy_host_actor(ProxyObject *proxy, PyObject *args);
PyObject *proxy_make_stand_in(ProxyObject *proxy, PyObject *args);
PyObject *proxy_bind(ProxyObject *proxy, PyObject *task);
PyObject *proxy_construction_failed(ProxyObject *proxy, PyObject *task);
PyObject *proxy_lose_actor(ProxyObject *proxy, PyObject *args);
PyObject *proxy_kill_actor(ProxyObject *proxy, PyObject *args);
PyObject *proxy_calls(ProxyObject *proxy, PyObject *args);
PyObject *proxy_actor_news(ProxyObject *proxy, PyObject *actors);
PyObject *proxy_checkpoint(ProxyObject *proxy, PyObject *args);
PyObject *proxy_checkpoints(ProxyObject *proxy, PyObject *objects);
PyObject *proxy_find_actor(ProxyObject *proxy, PyObject *args);

/* Generators, see proxy_streams.c. */
PyObject *proxy_stream_limit(ProxyObject *proxy, PyObject *task);
PyObject *proxy_item(ProxyObject *proxy, PyObject *args);
PyObject *proxy_taken(ProxyObject *proxy, PyObject *args);
PyObject *proxy_ahead(ProxyObject *proxy, PyObject *args);
PyObject *proxy_advance(ProxyObject *proxy, PyObject *args);

/* Placement groups, see proxy_groups.c. */
PyObject *proxy_host_group(ProxyObject *proxy, PyObject *args);
PyObject *proxy_bundle(ProxyObject *proxy, PyObject *task);
PyObject *proxy_block(ProxyObject *proxy, PyObject *task);

#endif
