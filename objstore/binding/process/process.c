/* What Linux offers a process and Python does not. Here because the module ctypes would be a fiftieth of a session's
 * start. */
#include "binding.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>

static PyObject *prctl_done(int result)
{
    if (result < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

PyObject *process_set_name(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    return text ? prctl_done(prctl(PR_SET_NAME, text, 0, 0, 0)) : NULL;
}

PyObject *process_set_death_signal(PyObject *module, PyObject *number)
{
    (void)module;
    long signal = PyLong_AsLong(number);
    if (signal == -1 && PyErr_Occurred())
        return NULL;
    return prctl_done(prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0));
}

PyObject *process_become_subreaper(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return prctl_done(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
}

PyObject *process_line_buffer_stdout(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (setvbuf(stdout, NULL, _IOLBF, 0) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* What glibc's malloc comes to by itself once a program has freed a block of 32 MB: blocks up to that size come from
 * the heap, which gives back to the kernel only what is free beyond twice as much. Until then it maps and unmaps each
 * block of 128 KB and more, or trims the heap after it, so arrays of such sizes cost a page fault for every 4 KB. */
#define HEAP_BLOCK (32 << 20)

PyObject *process_keep_heap(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
#ifdef __GLIBC__
    return PyBool_FromLong(mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK) && mallopt(M_TRIM_THRESHOLD, 2 * HEAP_BLOCK));
#else
    Py_RETURN_FALSE;
#endif
}

/* Pages that go are missed by the next task, so not for little. */
#define WORTH_TRIMMING (4 << 20)

void process_trim_heap(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    if (mallinfo2().fordblks >= WORTH_TRIMMING)
        malloc_trim(0);
#elif defined(__GLIBC__)
    malloc_trim(0);
#endif
}
