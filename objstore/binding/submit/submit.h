/* What the files that submit tasks share: the type of submitters, and the way from arguments to a task slot. */
#ifndef CELLMESH_BINDING_SUBMIT_H
#define CELLMESH_BINDING_SUBMIT_H

#include "binding.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    ClientObject *client;
    PyObject *function, *actor, *check; /* refs; check(args, kwargs) raises the TypeError of a wrong call */
    /* what the function was when it was exported; renew(): (function, watch) as it is now */
    PyObject *watch, *renew;
    PyObject *shape; /* of Client.resource_class */
    /* keyword-able name -> position (-1: keyword only); required keyword-only names */
    PyObject *positions, *required_names;
    Py_ssize_t n_required, n_max; /* positional; n_max -1: any number */
    bool checked, accepts_any_keyword, streams;
    bool free;     /* goes where the group of its caller, if that captures, wants it */
    bool inherits; /* its caller's priority */
    uint32_t class_number, placement, n_returns, actor_1;
    uint32_t limit; /* of a stream: items that its task may be ahead */
    int16_t max_retries;
    uint16_t flags, group;
    struct time_limits limits;
    const struct time_limits *times; /* those, NULL: none */
    PyObject *about;                 /* about(attribute): what `help` and `?` are told of it */
} SubmitterObject;

/* An argument that has become an object of its own. Given twice it is one object, and one value where it is
 * received. */
enum { N_MADE = 16 }; /* of a call are remembered */
typedef struct {
    PyObject *value;      /* borrowed of the arguments */
    uint32_t slot, index; /* UINT32_MAX: not a dependency in this pass, so far */
} MadeArgument;

typedef struct {
    ClientObject *client;
    bool put_all; /* second pass: everything but small scalars becomes an object of its own */
    uint32_t small[16], *slots, n, capacity;
    MadeArgument made[N_MADE];
    uint32_t n_made;
    PyObject *puts; /* refs made here, alive until the task pins them */
} Dependencies;

void dependencies_init(Dependencies *d, ClientObject *c);
void dependencies_clear(Dependencies *d);
/* Encodes the arguments of a call of a function. A large argument becomes an object of its own; a ref becomes a
 * dependency. `about`: of a submitter, for errors, may be NULL. */
int encode_arguments(ClientObject *c, uint32_t function, PyObject *about, Encoded *e, Dependencies *d,
                     PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
void fill_origin(ClientObject *c, struct task_spec *spec);
/* Builds the reference array and submits. `class_number`: of the shape, as known. `actor`: of the actor that the task
 * constructs, else NULL. `limit`: of a stream, NULL for other tasks. */
int submit_task(ClientObject *c, struct task_spec *spec, const struct resource_shape *shape, uint32_t *class_number,
                const Dependencies *d, const codec_out *out, const struct actor_spec *actor, uint32_t actor_object,
                const uint32_t *limit, uint32_t *results);
PyObject *submitter_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames); /* a vectorcall */

#endif
