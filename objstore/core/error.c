/* core/: the node's shared segment in plain C, for any process that maps it; never Python. */
#include "error.h"

const char *objstore_error_text(int error)
{
    switch (error) {
    case OBJSTORE_OK:
        return "ok";
    case OBJSTORE_FULL:
        return "the object store is full";
    case OBJSTORE_CORRUPT:
        return "the segment is corrupt";
    case OBJSTORE_INVALID:
        return "invalid argument";
    case OBJSTORE_LIMIT:
        return "a table of the segment is full";
    case OBJSTORE_CLOSED:
        return "the session has ended";
    case OBJSTORE_TIMEOUT:
        return "timed out";
    case OBJSTORE_SYSTEM:
        return "a system call failed";
    case OBJSTORE_EXISTS:
        return "the name is taken";
    case OBJSTORE_NOT_FOUND:
        return "not found";
    case OBJSTORE_PENDING:
        return "too many pending calls";
    default:
        return "unknown error";
    }
}
