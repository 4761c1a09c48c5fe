/* Internal to os/other, for systems of which Holdfast uses only POSIX. POSIX has no start times, no list of processes and no unique
 * ids. The only processes that can be identified are our own children: as long as we have not reaped one, its pid, and the
 * process group with that number, are not used again. */
#ifndef OTHER_H
#define OTHER_H

#include "os/posix/posix.h"

/* process.c */
/* Notes a child, so that it can be found. */
void add_child(pid_t pid);
/* The children that are noted and not yet reaped: their number, and the child at an index. */
long child_count(void);
pid_t child_at(long place);
/* 1: our child, which has not ended; 0: it has, and is not reaped; -1: it is not our child. */
int child_state(pid_t pid);

/* boundary.c: the process group of the leader. */
/* Creates the pipe whose end each process of the run inherits; the end for the child, -1: none. */
int group_prepare(void);
void group_begin(pid_t leader);
/* True if processes of the group may be alive although its leader has ended. */
bool group_outlives(pid_t leader);
/* Sends a signal to the group of our child. */
int group_signal(pid_t leader, int signal);

#endif
