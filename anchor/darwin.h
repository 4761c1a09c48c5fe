/* Internal to the darwin-*.c files. */
#ifndef DARWIN_H
#define DARWIN_H

#include "posix.h"

/* Not in the public headers. The kernel's bsd/sys/proc_info_private.h calls the layout API. */
#ifndef PROC_PIDUNIQIDENTIFIERINFO
#define PROC_PIDUNIQIDENTIFIERINFO 17
#endif
struct unique_info {
  uint8_t executable[16];
  uint64_t unique; /* not used again until the next boot; a later process has a larger one */
  uint64_t parent; /* of the process that forked it: stays the same when it gets another parent */
  int32_t version, parent_version;
  uint64_t reserved[2];
};
_Static_assert(sizeof(struct unique_info) == 56, "the layout of the kernel");

/* darwin-process.c */
/* Also of a zombie. False: errno is ESRCH if there is no such process. */
bool read_unique(pid_t pid, struct unique_info *out);
uint64_t mach_ms(uint64_t ticks);

/* darwin-list.c */
struct listed {
  uint64_t unique, parent;
  pid_t pid;
};
/* Lists all processes, also zombies, ascending by unique id: a process comes after the one that forked it. A process that
 * ended meanwhile has unique id 0. False: the list is not complete, or not all of it could be read. Valid until the next
 * call. */
bool list_processes(const struct listed **out, long *count);
/* The processes whose parent it is now, also zombies; -1 if they cannot be listed. Valid until the next call. */
long list_children(pid_t parent, const pid_t **out);

/* darwin-lineage.c: the processes of a run, known by the unique ids of their parents. */
/* Begins to track the lineage that is recorded in an open file. `watch`: this process is its anchor, and sees each fork. */
bool lineage_open(int file, const char *path, bool watch);
/* Ends that, and closes the file. */
void lineage_close(int file);
/* Adds the process that all others descend from. */
bool lineage_begin(int file, pid_t pid);

/* darwin-scan.c */
/* Adds processes that were forked since the last call, to every lineage. False: there may be more. */
bool lineage_scan(void);
/* The same. With only one lineage here, each new process is sent the signal at the moment it is found, unless it is 0:
 * processes that fork and end would escape otherwise. */
bool lineage_scan_and_signal(int signal);
/* A process that is watched has forked, or has ended. */
void lineage_forked(pid_t pid);
void lineage_ended(pid_t pid);
bool lineage_holds(int file, pid_t pid);
/* Moves a process from the lineage that holds it to another. */
bool lineage_move(int file, pid_t pid);
/* Collects its processes that have not ended, as of the last scan. */
long lineage_members(int file, struct member *out, long max);
/* True if all have ended, as of the last scan. A process that cannot be read has not. */
bool lineage_empty(int file);
/* The nearest ancestor of a process that is alive or was when last listed: its parent, unless a lineage knows that this one
 * has ended. */
uint64_t lineage_parent(uint64_t unique, uint64_t parent);

/* darwin-record.c: the file of a lineage. */
struct record {
  uint64_t unique, parent; /* parent 0: no longer in this lineage */
};
/* Writes the header to an empty file. */
bool record_begin(int file);
/* Reads all records, oldest first; NULL and count 0 if there are none or they are of another boot. Freed by the caller. */
struct record *record_read(int file, long *count);
bool record_append(int file, const struct record *record);
/* Replaces all records. */
void record_replace(int file, const struct record *records, long count);
/* True if another file in the directory of `path` has the process. */
bool record_elsewhere(const char *path, uint64_t unique);

/* darwin-events.c */
/* Makes os_next_stop_request call lineage_forked and lineage_ended. False: it has ended. */
bool watch_process(pid_t pid);
/* A new descriptor that never is ready. */
int never_ready(void);

#endif
