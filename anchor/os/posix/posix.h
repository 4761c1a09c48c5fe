/* Internal to os/posix, and what it needs of os/linux, os/darwin or os/other. */
#ifndef POSIX_H
#define POSIX_H

#include <sys/types.h>

#include "os/os.h"

_Static_assert(sizeof(pid_t) == sizeof(os_pid) && sizeof(uid_t) == sizeof(os_uid), "the ids of os.h are those of the system");

/* Closes every descriptor above this one. */
void posix_close_above(int fd);
/* pipe2(2) with O_CLOEXEC. */
bool posix_pipe(int ends[2]);
bool posix_nonblocking(int fd);
/* The limits that this process was started with, for a command. */
void posix_keep_limits(void);
void posix_restore_limits(void);

/* ---- implemented by os/linux, os/darwin and os/other ---- */

/* The state of signals that a command starts with: default dispositions, then nothing blocked. */
void posix_default_signals(void);
void posix_unblock_signals(void);
/* Sends any signal, as os_signal does. */
int posix_signal(const struct member *member, int signal);
/* Forks into the boundary; `join` tells posix_child_join whether the child must still move itself. */
pid_t posix_fork_into(const struct boundary *boundary, bool *join);
/* In the child: moves it to the boundary and under its limits. Returns the step that failed, or STEP_NONE. */
enum step posix_child_join(const struct boundary *boundary, bool join);
/* Opens both sides of a new terminal, neither inherited; the master, which never blocks, or -1. */
int posix_open_terminal(int *slave);
/* In a forked process: the memory is not inherited further. */
void posix_keep_from_children(void *memory, size_t size);
/* Sets the name that tools show for this process. */
void posix_set_name(const char *name);

#endif
