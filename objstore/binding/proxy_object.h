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

/* -1: an exception. */
int proxy_usable(ProxyObject *proxy);
int parse_slot(ProxyObject *proxy, PyObject *number, uint32_t *slot);
int parse_running(ProxyObject *proxy, PyObject *number, uint32_t *task);

/* A list of slots as an array, to be freed. `n_more` elements have room behind them. */
uint32_t *parse_slots(ProxyObject *proxy, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n);
PyObject *list_of(const uint32_t *slots, Py_ssize_t n);
PyObject *describe_tasks(ProxyObject *proxy, const uint32_t *tasks, uint32_t n);

/* Actors, see proxy_actors.c. */
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
PyObject *proxy_find_actor(ProxyObject *proxy, PyObject *args);


/* Generators, see proxy_streams.c. */
PyObject *proxy_stream_limit(ProxyObject *proxy, PyObject *task);
PyObject *proxy_item(ProxyObject *proxy, PyObject *args);
PyObject *proxy_taken(ProxyObject *proxy, PyObject *args);
PyObject *proxy_ahead(ProxyObject *proxy, PyObject *args);
PyObject *proxy_advance(ProxyObject *proxy, PyObject *args);

#endif
