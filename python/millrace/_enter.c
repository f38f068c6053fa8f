/* SPDX-License-Identifier: Apache-2.0 */
/* _enter.c - how threads that Python did not start come into it.
 *
 * Making a thread state takes a lock of the interpreter without holding the GIL. A fork at that
 * moment copies the lock as taken, and CPython 3.11 takes it in the child before it makes it anew:
 * the child waits for ever, and with it whoever waits for the child, such as a loop over a torch
 * DataLoader with workers. So states are made under a lock that every fork takes first, and are
 * ended while the GIL is held, which whoever forks holds too. */
#include "_binding.h"

#include <pthread.h>

/* Part of the stable ABI; headers declare it only outside of the limited API. */
PyAPI_FUNC(void) PyThreadState_DeleteCurrent(void);

/* Threads and forks are the process's, and PyGILState knows its first interpreter only. */
static pthread_mutex_t making_states = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static PyInterpreterState *interpreter;

static void before_fork(void) {
    pthread_mutex_lock(&making_states);
}

static void after_fork(void) {
    pthread_mutex_unlock(&making_states);
}

static void prepare(void) {
    interpreter = PyInterpreterState_Get();
    pthread_atfork(before_fork, after_fork, after_fork);
}

void enter_prepare(void) {
    pthread_once(&prepared, prepare);
}

PyThreadState *enter_make_state(void) {
    pthread_mutex_lock(&making_states);
    PyThreadState *state = PyThreadState_New(interpreter);
    pthread_mutex_unlock(&making_states);
    return state;
}

void enter_end_state(PyThreadState *state) {
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
}

entered enter_python(void) {
    entered e = {.own = PyGILState_GetThisThreadState() ? NULL : enter_make_state()};
    e.gil = PyGILState_Ensure();
    return e;
}

void leave_python(entered e) {
    if (e.own) {
        enter_end_state(e.own);
    } else {
        PyGILState_Release(e.gil);
    }
}
