/* Named records: what the binding returns and Python reads by name. A record is a struct sequence, so it is also a
 * tuple and can be unpacked. formats/records.c declares each type once, with the names of its fields; _core.pyi repeats
 * them for type checkers, and tests/project/test_stubs.py compares the two.
 *
 * A record costs one allocation more than a tuple. Results of the hot paths (get, put, wait, the calls of a submitter)
 * stay what they are. */
#ifndef CELLMESH_BINDING_RECORDS_H
#define CELLMESH_BINDING_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum record {
    RECORD_ACTOR,
    RECORD_ACTOR_DEATH,
    RECORD_ACTOR_NEWS,
    RECORD_ACTOR_PLACE,
    RECORD_ACTOR_SPEC,
    RECORD_BUNDLE,
    RECORD_BUNDLE_STATE,
    RECORD_CANCELLED,
    RECORD_CAPACITY,
    RECORD_CLASS_TERMS,
    RECORD_CLOCK,
    RECORD_CREATED_ACTOR,
    RECORD_EVENTS,
    RECORD_EVENTS_READ,
    RECORD_EXPIRED,
    RECORD_FAILURE,
    RECORD_FUNCTION_PLACE,
    RECORD_GROUP,
    RECORD_HOLDER,
    RECORD_IDLE_MEMORY,
    RECORD_OBJECT,
    RECORD_PLACED_TASK,
    RECORD_RESOURCES,
    RECORD_RESOURCE_CLASS,
    RECORD_RETRIED_TASK,
    RECORD_RUN,
    RECORD_RUN_TIMES,
    RECORD_STOPPED_OWNER,
    RECORD_STOPPED_TASK,
    RECORD_SUBMITTED_TASK,
    RECORD_SURPLUS,
    RECORD_TASK,
    RECORD_TASK_BUNDLE,
    RECORD_TASK_TIMES,
    N_RECORDS
};

/* Makes the types and adds them to the module; -1: an exception. */
int records_init(PyObject *module, PyTypeObject *types[N_RECORDS]);

/* A record from values as Py_BuildValue takes them. `format` has one unit a field and no parentheses around them. */
PyObject *record_new(PyTypeObject *const types[N_RECORDS], enum record which, const char *format, ...);

#endif
