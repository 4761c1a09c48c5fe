/* Other POSIX systems: the boundary of a run is the process group of its leader. The leader begins a session with it. A
 * process that begins a session or group of its own leaves the run.
 *
 * Each process of the run inherits one end of a pipe: when no process has it any more, the run is most likely empty. That is
 * no proof, because a program can close it. An empty group is no proof either. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "os/other/other.h"

static const char weakness[] = "this system shows only the process group of a run: a process that starts a session or group of its own leaves the run";

/* An anchor has one run: nothing can be adopted out of it. */
static struct {
  pid_t leader;
  int pipe; /* our end */
  bool closed, killed, reaped, gone;
} group = {.pipe = -1};

/* ---- the group ---- */

int group_prepare(void) {
  int ends[2];
  if (!posix_pipe(ends)) return -1;
  if (!posix_nonblocking(ends[0])) {
    close(ends[0]);
    close(ends[1]);
    return -1;
  }
  group.pipe = ends[0];
  return ends[1];
}

void group_begin(pid_t leader) {
  group.leader = leader;
  add_child(leader);
}

/* True if no process of the run has its end of the pipe. Bytes that a program writes into it are discarded. */
static bool pipe_closed(void) {
  char byte;
  long n = 1;
  while (!group.closed && group.pipe >= 0 && (n = os_read(group.pipe, &byte, 1)) > 0) continue;
  group.closed |= n == 0;
  return group.closed;
}

bool group_outlives(pid_t leader) { return leader == group.leader && !group.killed && !pipe_closed(); }

int group_signal(pid_t leader, int signal) {
  if (leader != group.leader) return kill(leader, signal) == 0 ? 0 : errno;
  if (signal == SIGKILL) group.killed = true;
  if (kill(-leader, signal) == 0 || (errno == ESRCH && kill(leader, signal) == 0)) return 0; /* it has no group before the gate */
  return errno;
}

/* Reaping the leader frees the number of the group, so it is the last: all that is left is killed first, and nothing is
 * signalled afterwards. The kernel kills a group as a whole, also what it is forking. */
static void end_group(void) {
  if (group.reaped) return;
  (void)group_signal(group.leader, SIGKILL);
  os_reap(group.leader);
  group.reaped = true;
}

enum emptiness os_boundary_emptiness(const struct boundary *boundary) {
  (void)boundary;
  if (group.leader == 0) return UNPROVEN;
  if (!group.reaped && (child_state(group.leader) == 1 || group_outlives(group.leader))) return OCCUPIED;
  end_group();
  group.gone |= kill(-group.leader, 0) != 0 && errno == ESRCH;
  return group.gone ? UNPROVEN : UNSEEN;
}

void os_boundary_doubt(char *out, size_t size) {
  if (!group.gone) snprintf(out, size, "a process of its process group may not have been ended");
  else if (!pipe_closed()) snprintf(out, size, "a process that left its process group still has a descriptor of the run");
  else snprintf(out, size, "its process group is empty; %s", weakness);
}

enum emptiness os_boundary_missing(int error) {
  (void)error;
  return UNPROVEN;
}

bool os_boundary_kill(const struct boundary *boundary) {
  (void)boundary;
  return false;
}

int os_boundary_events(const struct boundary *boundary) {
  (void)boundary;
  return group.pipe;
}

/* A closed pipe would always be ready, so it is replaced by a pipe that never is. */
void os_boundary_events_read(int events) {
  int ends[2];
  if (!pipe_closed() || !posix_pipe(ends)) return;
  (void)dup2(ends[1], events);
  close(ends[1]); /* `ends[0]` stays open, so that the other end is never ready for reading */
}

void os_boundary_close(struct boundary *boundary) { boundary->cgroup = -1; }

void os_boundary_remove(struct boundary *boundary) { boundary->cgroup = -1; }

/* ---- there are no other boundaries ---- */

bool os_boundaries_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  (void)place;
  (void)size;
  runs[0] = 0;
  snprintf(note, note_size, "%s", weakness);
  return false;
}

void os_boundaries_leave(const char *runs) { (void)runs; }

bool os_is_boundary_path(const char *path) { return path[0] == '/'; }

void os_boundary_recorded_path(const char *path, char *out, size_t size) { snprintf(out, size, "%s", path); }

bool os_boundary_path_of(os_pid pid, char *out, size_t size) {
  (void)pid;
  (void)out;
  (void)size;
  return false;
}

const char *os_boundary_kind(const struct boundary *boundary) {
  (void)boundary;
  return "group";
}

void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  (void)runs;
  (void)run_id;
  (void)note;
  *boundary = (struct boundary){.cgroup = -1};
  snprintf(boundary->note, sizeof boundary->note, "%s", weakness);
}

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  (void)runs;
  (void)run_id;
  *boundary = (struct boundary){.cgroup = -1};
  return false;
}

bool os_boundary_reopen(struct boundary *boundary, const char *path, uint64_t inode) {
  (void)inode;
  return os_boundary_find(boundary, path, path);
}

const char *os_boundary_state(const char *path, uint64_t inode) {
  (void)path;
  (void)inode;
  return "unknown";
}

void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id)) { (void)visit; }

bool os_boundary_holds(const struct boundary *boundary, os_pid pid) {
  (void)boundary;
  (void)pid;
  return true;
}

long os_boundary_members(const struct boundary *boundary, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of) {
  (void)boundary;
  (void)out;
  (void)max;
  (void)skip;
  (void)of;
  return 0;
}

bool os_boundary_move(const struct boundary *boundary, os_pid pid) {
  (void)boundary;
  (void)pid;
  errno = ENOTSUP;
  return false;
}

bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms) {
  (void)boundary;
  (void)patience_ms;
  return false;
}

void os_boundary_thaw(const struct boundary *boundary) { (void)boundary; }
