/* A descriptor that rings when this client is woken, for loops that wait for sockets too. Its thread knows no Python. */
#include "binding.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bell {
    struct segment *s;
    uint32_t seen;
    int fd;
    _Atomic bool *ends;
};

static void *ring(void *argument)
{
    struct bell bell = *(struct bell *)argument;
    PyMem_RawFree(argument);
    const uint64_t once = 1;
    while (!atomic_load(bell.ends)) {
        client_sleep(bell.s, bell.seen, -1, NULL);
        uint32_t now = client_inbox(bell.s);
        if (now != bell.seen && write(bell.fd, &once, sizeof once) < 0)
            break; /* closed: nobody listens */
        bell.seen = now;
    }
    return NULL;
}

PyObject *client_bell(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    if (c->bell_fd)
        return PyErr_Format(PyExc_ValueError, "this client has a bell already");
    struct bell *bell = PyMem_RawMalloc(sizeof *bell);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!bell || fd < 0) {
        PyMem_RawFree(bell);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    *bell = (struct bell){&c->s, client_inbox(&c->s), fd, &c->bell_ends};
    sigset_t all, before;
    sigfillset(&all); /* they are for Python's threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&c->bell_thread, NULL, ring, bell);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        PyMem_RawFree(bell);
        close(fd);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    c->bell_fd = fd;
    return PyLong_FromLong(fd);
}

void bell_end(ClientObject *c)
{
    if (!c->bell_fd)
        return;
    atomic_store(&c->bell_ends, true);
    notify_client(&c->s, c->s.me);
    pthread_join(c->bell_thread, NULL);
    close(c->bell_fd);
    c->bell_fd = 0;
}
