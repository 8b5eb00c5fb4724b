/* Python 3.14 calls `__enter__` as any function, and behind a call it looks for signals. KeyboardInterrupt is raised
 * there before the `with` statement knows that it has entered, so `__exit__` is not called: a lock stays taken for ever
 * (CPython issue 148874, mended in 3.15). So a signal that comes there comes again at the next instruction where Python
 * looks, instead of being handled. */
#include "binding.h"

#if PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030F0000
#include <opcode.h>

/* Whether the frame is in the call of an `__enter__`. -1: with an error set. */
static int is_entering(PyObject *frame)
{
    if (!PyFrame_Check(frame))
        return false;
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
    PyObject *bytes = PyCode_GetCode(code);
    Py_DECREF(code);
    if (!bytes)
        return -1;
    int at = PyFrame_GetLasti((PyFrameObject *)frame); /* in bytes; an instruction has two */
    bool entering = at >= 2 && (unsigned char)PyBytes_AS_STRING(bytes)[at - 2] == LOAD_SPECIAL;
    Py_DECREF(bytes);
    return entering;
}

/* Whether the signal is to come again. -1: with an error set. */
static int is_deferred(PyObject *const *args, Py_ssize_t n)
{
    int entering = n == 2 ? is_entering(args[1]) : false;
    if (entering <= 0)
        return entering;
    long number = PyLong_AsLong(args[0]);
    if (number == -1 && PyErr_Occurred())
        return -1;
    PyErr_SetInterruptEx((int)number);
    return true;
}

/* No handler in Python: in its own first instructions it would find the signal that comes again. */
static PyObject *defer_or_handle(PyObject *handler, PyObject *const *args, Py_ssize_t n)
{
    int deferred = is_deferred(args, n);
    if (deferred < 0)
        return NULL;
    return deferred ? Py_NewRef(Py_None) : PyObject_Vectorcall(handler, args, (size_t)n, NULL);
}

PyObject *process_deferring(PyObject *module, PyObject *handler)
{
    (void)module;
    static PyMethodDef method = {"deferring_handler", (PyCFunction)(void (*)(void))defer_or_handle, METH_FASTCALL,
                                 NULL};
    return PyCFunction_New(&method, handler);
}

typedef PyObject *(*fast_method)(PyObject *, PyObject *const *, Py_ssize_t);
static PyCFunction pythons;

static PyObject *defer_or_raise(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    int deferred = is_deferred(args, n);
    if (deferred < 0)
        return NULL;
    return deferred ? Py_NewRef(Py_None) : ((fast_method)(void (*)(void))pythons)(module, args, n);
}

int process_mend_interrupts(void)
{
    PyObject *module = PyImport_ImportModule("_signal");
    PyObject *handler = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
    Py_XDECREF(module);
    if (!handler)
        return -1;
    /* Within it: libraries compare the handler of SIGINT with this one, and replace it if that is it. */
    PyMethodDef *method = PyCFunction_CheckExact(handler) ? ((PyCFunctionObject *)handler)->m_ml : NULL;
    if (method && method->ml_flags == METH_FASTCALL && !pythons) {
        pythons = method->ml_meth;
        method->ml_meth = (PyCFunction)(void (*)(void))defer_or_raise;
    }
    Py_DECREF(handler);
    return 0;
}
#else
PyObject *process_deferring(PyObject *module, PyObject *handler)
{
    (void)module;
    return Py_NewRef(handler);
}

int process_mend_interrupts(void) { return 0; }
#endif
