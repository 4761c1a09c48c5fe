/* The boundary of a run: cgroup, job, lineage, or only ancestry. */
#ifndef OS_BOUNDARY_H
#define OS_BOUNDARY_H

#include "os/interface/process.h"

struct boundary {
  int cgroup;              /* directory descriptor, -1 if there is none */
  char path[PATH_SIZE];    /* below the cgroup root */
  uint64_t inode;
  char note[NOTE_SIZE];    /* why the boundary is not stronger; empty if it is as strong as possible */
};

/* Prepares for the boundaries of all runs of one instance directory (`place`), and writes their directory to `runs`. On failure
 * returns false and writes a note. */
bool os_boundaries_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size);
void os_boundaries_leave(const char *runs);
/* True if a recorded path can be one of this system. */
bool os_is_boundary_path(const char *path);
/* Its word in records: "cgroup", "job" or "lineage"; "subreaper" if there is none. */
const char *os_boundary_kind(const struct boundary *boundary);
void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note);
/* Opens an existing boundary; false if there is none. */
bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id);
/* Opens a recorded boundary; false unless path and inode both match. */
bool os_boundary_reopen(struct boundary *boundary, const char *path, uint64_t inode);
/* "populated", "empty", "gone" (the path is missing or is another cgroup) or "unknown" (it is not visible from
 * here). */
const char *os_boundary_state(const char *path, uint64_t inode);
/* Converts the path of a boundary to its path in records. */
void os_boundary_recorded_path(const char *path, char *out, size_t size);
/* Visits every cgroup of a run that this user created, of any instance; `place` is that instance with the device and
 * inode of its directory. */
void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id));
/* True if its processes were killed as a whole. Refused, like any signal, if it would hit this process or an ancestor. On a
 * system that cannot, they are killed one by one, and the answer is false. */
bool os_boundary_kill(const struct boundary *boundary);
/* Evidence of live processes in a boundary. */
enum emptiness {
  OCCUPIED, /* there are some, or they cannot be read */
  UNSEEN,   /* none was found; asking again may prove that there is none */
  UNPROVEN, /* none was found, and no proof is possible */
  EMPTY     /* proven */
};
/* Also EMPTY without a cgroup on a system with subreapers: then only ancestry identifies members. */
enum emptiness os_boundary_emptiness(const struct boundary *boundary);
static inline bool os_boundary_empty(const struct boundary *boundary) { return os_boundary_emptiness(boundary) == EMPTY; }
/* UNSEEN counts as UNPROVEN if the answer is still UNSEEN this time after the first. */
#define UNSEEN_LIMIT_MS 1000
/* Writes the reason why the last answer was UNSEEN or UNPROVEN. */
void os_boundary_doubt(char *out, size_t size);
/* The emptiness of a run whose anchor has died, if os_boundary_find has failed with this errno and all children of the launcher
 * are anchors: EMPTY on a system with subreapers. */
enum emptiness os_boundary_missing(int error);
bool os_boundary_holds(const struct boundary *boundary, os_pid pid);
/* Freezes all its processes until they are thawed; only KILL ends them meanwhile. False: not done within the time. */
bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms);
void os_boundary_thaw(const struct boundary *boundary);
/* Moves a process into the boundary; its later children start there. False and errno. */
bool os_boundary_move(const struct boundary *boundary, os_pid pid);
/* Returns a descriptor that is ready for OS_PRIORITY when emptiness changes, -1 without cgroup. */
int os_boundary_events(const struct boundary *boundary);
/* Takes note of the change, so that the descriptor is not ready any more. */
void os_boundary_events_read(int events);
/* Closes the boundary here; the processes stay in it. */
void os_boundary_close(struct boundary *boundary);
/* Collects its processes, also those in nested cgroups, without those that `skip` accepts (NULL: all). -1: it cannot be read. */
long os_boundary_members(const struct boundary *boundary, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of);
void os_boundary_remove(struct boundary *boundary);

#endif
