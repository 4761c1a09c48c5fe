/* This process: time, memory, signals. */
#ifndef OS_THIS_PROCESS_H
#define OS_THIS_PROCESS_H

#include "os/interface/process.h"

/* ---- memory and time ---- */

/* Zeroed memory that is allocated when first touched; NULL if there is none. */
void *os_map(size_t size);
/* The same, for os_anchor_start to share. */
void *os_map_shared(size_t size);
void os_unmap(void *memory, size_t size);
/* Monotonic; suspend does not count. */
uint64_t os_now_ms(void);
/* Since 1970. */
uint64_t os_wall_ms(void);

/* ---- this process ---- */

/* Reads the test-only variable HOLDFAST_ANCHOR_WEAKEN and drops cached facts of the parent process. Call first, and
 * after a fork. False if this process cannot see itself, and pids therefore mean other processes. */
bool os_init(void);
/* Why os_init failed, and what the user can do if anything. */
extern const char *const os_init_problem;
/* The words of our command line as UTF-8. */
char **os_arguments(int *argc, char **argv);
os_pid os_own_pid(void);
/* Changes when the parent has died. */
os_pid os_parent(void);
bool os_become_reaper(void);
/* Protects this process from the OOM killer if permitted, and raises its descriptor limit. Commands get neither. */
void os_harden_self(void);
/* Raises our CPU priority if permitted, to win against a fork bomb; or restores it. */
void os_raise_priority(bool on);

/* A descriptor that is readable after a request to stop this process, and when a child has ended. From now on only KILL,
 * STOP and our own faults end or stop this process. */
int os_events_open(void);
/* Takes one request, and describes its sender in `actor`; false if there is none, and the descriptor is not readable
 * any more. */
bool os_next_stop_request(int events, char *actor, size_t size);

#endif
