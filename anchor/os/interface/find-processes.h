/* Finds processes: descendants, ancestors, all, or those with a marker. */
#ifndef OS_FIND_PROCESSES_H
#define OS_FIND_PROCESSES_H

#include "os/interface/process.h"

/* Collects the live descendants of `root` (not itself), parents first, each verified through an open handle: its
 * parent was a verified member while it was its child. At most `max`; `skip(pid, of)` (may be NULL) leaves out a process and
 * its descendants. `signal`, unless 0, is sent to each at the moment it is found, because a chain of forking
 * processes would escape otherwise. Returns the count; -1 if processes cannot be listed. */
long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal);
/* Collects children only. */
long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal);
/* Counts our children, including zombies, except those that `skip` accepts; -1 if they cannot be listed. */
long os_count_children(bool (*skip)(os_pid pid, const void *of), const void *of);
/* Collects ancestors from the parent on, as far as they can be verified; at most `max`. */
long os_ancestors(const struct member *of, struct identity *out, long max);
/* Visits every process. False if processes cannot be listed. */
bool os_each_process(void (*visit)(os_pid pid));
/* Collects live processes with this variable. A marker alone is reported, never signalled. */
long os_marked(const char *name, const char *value, struct member *out, long max);

#endif
