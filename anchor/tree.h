/* Killing a tree that may be growing. */
#ifndef TREE_H
#define TREE_H

#include "os.h"

#define MEMBERS_MAX 16384

/* One tree is looked at at a time; memory is touched only then. */
extern struct member members[MEMBERS_MAX];

/* How many handles can be opened besides `held` members whose handles are open. */
long tree_room(long held);
/* The same when none is open. */
long tree_max(void);
void tree_release(long count);
bool tree_dead(const struct member *member);
/*
 * Stop everyone until nobody new appears, then kill: a fork storm cannot outrun it. `collect` fills `members` from scratch
 * each time it is asked, and sends the signal it is given to each in the moment it is found. Returns their count; their handles stay open.
 */
long tree_kill(long (*collect)(int signal));
/* The same for a `collect` that adds to what it found before, and keeps its handles itself. */
long stop_then_kill(long (*collect)(int signal));

#endif
