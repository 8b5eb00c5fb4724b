/* Interrupts that are not lost. Python notes a signal and looks at its notes between two instructions; a blocking call
 * ends early if a signal comes while it blocks. One that comes after the last look and before the call begins does
 * neither: the call blocks for as long as it likes. A cancelled task would then go on, once in some thousand times when
 * it is cancelled as it begins to sleep or read. So a worker's SIGINT repeats itself until Python has looked at it. */
#include "binding.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define REPEAT_NS 20000000

static struct sigaction pythons;
static timer_t timer; /* not inherited by forked children, which have other things to do */
static bool repeats;

static void arm(long ns)
{
    const struct itimerspec after = {.it_value = {.tv_nsec = ns}};
    timer_settime(timer, 0, &after, NULL); /* safe in a signal handler */
}

static void on_interrupt(int number)
{
    int error = errno;
    arm(REPEAT_NS);
    pythons.sa_handler(number);
    errno = error;
}

void interrupt_seen(void)
{
    if (repeats)
        arm(0);
}

/* A driver's SIGINT, sent to the process, is taken by whichever thread runs at that moment: a notebook has a dozen. The
 * main thread, for which it was meant, has been woken then, finds nothing, and its futex call goes on by itself. So
 * the thread that takes it passes it on. */
static struct sigaction before;
static pthread_t sleeper;
static _Atomic uint32_t *sleeps_on;

static void pass_on(int number)
{
    int error = errno;
    if (pthread_equal(pthread_self(), sleeper)) {
        before.sa_handler(number);
        atomic_fetch_add(sleeps_on, 1); /* it may not sleep yet */
    } else {
        pthread_kill(sleeper, number);
    }
    errno = error;
}

bool interrupts_to_me(_Atomic uint32_t *word)
{
    if (repeats || gettid() != getpid() || sigaction(SIGINT, NULL, &before) < 0 || before.sa_flags & SA_SIGINFO ||
        before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
        return false;
    struct sigaction ours = before;
    ours.sa_handler = pass_on;
    sleeper = pthread_self();
    sleeps_on = word;
    return sigaction(SIGINT, &ours, NULL) == 0;
}

void interrupts_to_any_thread(void) { sigaction(SIGINT, &before, NULL); }

PyObject *process_repeat_interrupts(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGINT};
    struct sigaction ours;
    if (sigaction(SIGINT, NULL, &pythons) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if ((pythons.sa_flags & SA_SIGINFO) || pythons.sa_handler == SIG_DFL || pythons.sa_handler == SIG_IGN) {
        PyErr_SetString(PyExc_RuntimeError, "repeat_interrupts(): SIGINT must have a handler in Python first");
        return NULL;
    }
    ours = pythons;
    ours.sa_handler = on_interrupt;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 || sigaction(SIGINT, &ours, NULL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    repeats = true;
    Py_RETURN_NONE;
}
