/* Internal to os/darwin. */
#ifndef DARWIN_H
#define DARWIN_H

#include "os/posix/posix.h"

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

/* process.c */
/* Also of a zombie. False: errno is ESRCH if there is no such process. */
bool read_unique(pid_t pid, struct unique_info *out);
/* The wait status of a zombie; false if it is none, or another user's. */
bool read_wait_status(pid_t pid, int *out);
uint64_t mach_ms(uint64_t ticks);

/* list-processes.c */
struct listed {
  uint64_t unique, parent; /* 0 if it could not be read */
  pid_t pid;
  bool unread; /* most often it has ended meanwhile; its children may not be on the list */
  bool ended;  /* used in unrelated-processes.c */
};
/* Lists all processes, also zombies, ascending by unique id: a process comes after the one that forked it. False: they could
 * not be listed. Valid until the next call. */
bool list_processes(const struct listed **out, long *count);
/* NULL: it is not on the list. */
const struct listed *find_listed(const struct listed *list, long count, uint64_t unique);
/* The processes whose parent it is now, also zombies; -1 if they cannot be listed. Valid until the next call. */
long list_children(pid_t parent, const pid_t **out);

/* lineage.c: the processes of a run, known by the unique ids of their parents. */
/* Begins to track the lineage that is recorded in an open file. `watch`: this process is its anchor, and sees each fork. */
bool lineage_open(int file, const char *path, bool watch);
/* Ends that, and closes the file. */
void lineage_close(int file);
/* Adds the process that all others descend from. */
bool lineage_begin(int file, pid_t pid);

/* scan-lineages.c */
/* Adds processes that were forked since the last call, to every lineage. False: there may be more, besides those whose
 * parents were not seen. */
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
/* Lists processes repeatedly. EMPTY: all have ended. OCCUPIED: one has not. UNSEEN: neither can be proven. */
enum emptiness lineage_emptiness(int file);
/* The nearest ancestor of a process that is alive or was when last listed: its parent, unless a lineage knows that this one
 * has ended. */
uint64_t lineage_parent(uint64_t unique, uint64_t parent);

/* lineage-file.c: the file of a lineage. */
struct record {
  uint64_t unique, parent; /* parent 0: no longer in this lineage */
};
/* Writes the header to an empty file. */
bool record_begin(int file);
/* Reads all records, oldest first; none if they are of another boot. False: it is no such file, or cannot be read. Freed by
 * the caller. */
bool record_read(int file, struct record **out, long *count);
bool record_append(int file, const struct record *record);
/* Replaces all records. */
void record_replace(int file, const struct record *records, long count);
/* True if another file in the directory of `path` has the process. */
bool record_elsewhere(const char *path, uint64_t unique);
/* True if a file of another instance of this user has it; `root` gets the first process of that run. */
bool record_of_other_instance(const char *path, uint64_t unique, struct record *root);

/* lineage-directory.c */
/* True if os_boundaries_prepare failed in this process, or in the launcher that it was forked from. */
bool lineage_directory_failed(void);
/* True if the path of a recorded lineage can be one of this user. */
bool lineage_path_possible(const char *recorded);
/* Opens the file of a lineage, or creates it; a lineage without a path is only in memory. -1 and errno. */
int lineage_file_open(const char *path);
int lineage_file_create(const char *path);

/* received-signals-and-children.c */
/* Makes os_next_stop_request call lineage_forked and lineage_ended. False: it has ended. */
bool watch_process(pid_t pid);
/* A new descriptor that never is ready. */
int never_ready(void);

#endif
