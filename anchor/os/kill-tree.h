/* Kills a process tree that may be growing. */
#ifndef KILL_TREE_H
#define KILL_TREE_H

#include "os/os.h"

#define MEMBERS_MAX 16384

/* The collected processes of one tree at a time; memory is touched only then. */
extern struct member members[MEMBERS_MAX];

/* Number of handles that can be opened besides those of `held` members. */
long tree_room(long held);
/* The same if none is open. */
long tree_max(void);
void tree_release(long count);
bool tree_dead(const struct member *member);
/* Sends SIGSTOP until no new process appears, then SIGKILL: a fork bomb cannot outrun it. `collect`, which gets
 * `of`, fills `members` from scratch each time, and sends the signal to each process at the moment it is found. Returns their number;
 * their handles stay open. */
long tree_kill(long (*collect)(void *of, int signal), void *of);
/* The same for a `collect` that adds to earlier results and keeps their handles. */
long stop_then_kill(long (*collect)(void *of, int signal), void *of);

#endif
