/* A descriptor that rings when this client is woken, for loops that wait for sockets too. Its thread knows no
 * Python. */
#include "binding.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wake_fd {
    struct segment *s;
    uint32_t seen;
    int fd;
    _Atomic bool *ends;
};

static void *ring(void *argument)
{
    struct wake_fd w = *(struct wake_fd *)argument;
    PyMem_RawFree(argument);
    const uint64_t once = 1;
    while (!atomic_load(w.ends)) {
        client_sleep(w.s, w.seen, -1, NULL);
        uint32_t now = client_inbox(w.s);
        if (now != w.seen && write(w.fd, &once, sizeof once) < 0)
            break; /* closed: it has no listener */
        w.seen = now;
    }
    return NULL;
}

static PyObject *client_wake_fd(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    if (c->wake_fd)
        return PyErr_Format(PyExc_ValueError, "this client has a wake fd already");
    struct wake_fd *w = PyMem_RawMalloc(sizeof *w);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w || fd < 0) {
        PyMem_RawFree(w);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    *w = (struct wake_fd){&c->s, client_inbox(&c->s), fd, &c->wake_thread_ends};
    sigset_t all, before;
    sigfillset(&all); /* they are for Python's threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&c->wake_thread, NULL, ring, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        PyMem_RawFree(w);
        close(fd);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    c->wake_fd = fd;
    return PyLong_FromLong(fd);
}

void wake_fd_end(ClientObject *c)
{
    if (!c->wake_fd)
        return;
    atomic_store(&c->wake_thread_ends, true);
    notify_client(&c->s, c->s.me);
    pthread_join(c->wake_thread, NULL);
    close(c->wake_fd);
    c->wake_fd = 0;
}

PyMethodDef wake_fd_methods[] = {{"wake_fd", (PyCFunction)client_wake_fd, METH_NOARGS,
                                  "wake_fd()\n--\n\nA descriptor that is readable once this client has been woken."},
                                 {NULL}};
