/* Results of all operations of the core. 0 is success; a negative value says what went wrong. */
#ifndef CELLMESH_ERROR_H
#define CELLMESH_ERROR_H

enum objstore_error {
    OBJSTORE_OK = 0,
    OBJSTORE_FULL = -1,    /* the arena has no free range of that size */
    OBJSTORE_CORRUPT = -2, /* the segment violates its own format */
    OBJSTORE_INVALID = -3, /* an invalid argument */
    OBJSTORE_LIMIT = -4,   /* a table (objects, tasks, actors, clients, classes) is full */
    OBJSTORE_CLOSED = -5,  /* the session has ended */
    OBJSTORE_TIMEOUT = -6,
    OBJSTORE_SYSTEM = -7, /* a system call failed, see errno */
    OBJSTORE_EXISTS = -8,
    OBJSTORE_NOT_FOUND = -9,
    OBJSTORE_PENDING = -10 /* the actor has as many pending calls as it allows */
};

/* A short English text for a result; never NULL. */
const char *objstore_error_text(int error);

#endif
