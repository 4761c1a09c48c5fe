/* macOS: the boundary of a run, its lineage. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/darwin/darwin.h"
#include "os/kill-tree.h"

#define KILL_ROUNDS 4

bool os_boundary_path_of(os_pid pid, char *out, size_t size) {
  (void)pid;
  (void)out;
  (void)size;
  return false;
}

/* ---- opening ---- */

bool os_is_boundary_path(const char *path) { return path[0] == '/'; }

const char *os_boundary_kind(const struct boundary *boundary) {
  (void)boundary;
  return "lineage";
}

static bool take(struct boundary *boundary, int file, const char *path, bool watch) {
  struct stat st;
  *boundary = (struct boundary){.cgroup = -1};
  if (file < 0) return false;
  if (fstat(file, &st) != 0 || !lineage_open(file, path, watch)) {
    int error = errno;
    close(file);
    errno = error;
    return false;
  }
  boundary->cgroup = file;
  boundary->inode = (uint64_t)st.st_ino;
  snprintf(boundary->path, sizeof boundary->path, "%s", path);
  return true;
}

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  char path[PATH_SIZE];
  *boundary = (struct boundary){.cgroup = -1};
  errno = ENAMETOOLONG;
  return (size_t)snprintf(path, sizeof path, "%s/%s", runs, run_id) < sizeof path && take(boundary, lineage_file_open(path), path, false);
}

void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  char path[PATH_SIZE] = "";
  bool named = runs == NULL || (size_t)snprintf(path, sizeof path, "%s/%s", runs, run_id) < sizeof path;
  bool opened = named && !lineage_directory_failed() && take(boundary, lineage_file_create(path), path, true);
  int error = errno;
  if (!opened) *boundary = (struct boundary){.cgroup = -1};
  if (opened || lineage_directory_failed()) snprintf(boundary->note, sizeof boundary->note, "%s", note);
  else snprintf(boundary->note, sizeof boundary->note, "the lineage of this run cannot be recorded: %s", strerror(error));
}

bool os_boundary_reopen(struct boundary *boundary, const char *recorded, uint64_t inode) {
  *boundary = (struct boundary){.cgroup = -1};
  if (!lineage_path_possible(recorded)) return false;
  if (!take(boundary, lineage_file_open(recorded), recorded, false)) return false;
  if (boundary->inode == inode) return true;
  os_boundary_close(boundary);
  return false;
}

/* A missing file proves nothing: a program that frees space may have removed it. */
const char *os_boundary_state(const char *path, uint64_t inode) {
  struct boundary boundary;
  if (!os_boundary_reopen(&boundary, path, inode)) return "unknown";
  long count = os_boundary_members(&boundary, members, tree_max(), NULL, NULL);
  bool empty = count == 0 && os_boundary_empty(&boundary);
  tree_release(count);
  os_boundary_close(&boundary);
  return count > 0 ? "populated" : empty ? "empty" : "unknown";
}

void os_boundary_close(struct boundary *boundary) {
  if (boundary->cgroup >= 0) lineage_close(boundary->cgroup);
  boundary->cgroup = -1;
}

void os_boundary_remove(struct boundary *boundary) {
  if (boundary->cgroup >= 0 && boundary->path[0] != 0) (void)unlink(boundary->path);
  os_boundary_close(boundary);
}

/* ---- members ---- */

/* Without a lineage nothing is proven: an orphan is no longer below its anchor. */
enum emptiness os_boundary_emptiness(const struct boundary *boundary) {
  return boundary->cgroup < 0 ? OCCUPIED : lineage_emptiness(boundary->cgroup);
}

enum emptiness os_boundary_missing(int error) {
  (void)error;
  return UNPROVEN;
}

bool os_boundary_holds(const struct boundary *boundary, os_pid pid) { return boundary->cgroup < 0 || lineage_holds(boundary->cgroup, pid); }

long os_boundary_members(const struct boundary *boundary, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of) {
  if (boundary->cgroup < 0) return 0;
  (void)lineage_scan();
  long found = lineage_members(boundary->cgroup, out, max), kept = 0;
  for (long i = 0; i < found; i++) {
    if (skip != NULL && skip(out[i].id.pid, of)) os_release(&out[i]);
    else out[kept++] = out[i];
  }
  return found < 0 ? found : kept;
}

bool os_boundary_move(const struct boundary *boundary, os_pid pid) {
  bool moved = lineage_move(boundary->cgroup, pid);
  if (!moved && errno == 0) errno = ESRCH;
  return moved;
}

/* A child that is forked while its parent is moved follows the parent. */
bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms) {
  (void)patience_ms;
  return boundary->cgroup >= 0;
}

void os_boundary_thaw(const struct boundary *boundary) { (void)boundary; }

static long collect_members(void *of, int signal) {
  const struct boundary *boundary = of;
  (void)lineage_scan_and_signal(signal);
  long count = lineage_members(boundary->cgroup, members, tree_max());
  for (long i = 0; signal != 0 && i < count; i++)
    if (members[i].state != 'T') os_signal(&members[i], signal);
  return count;
}

/* Kills the processes one by one, so it is not "as a whole". */
bool os_boundary_kill(const struct boundary *boundary) {
  struct boundary ours = *boundary;
  for (int round = 0; round < KILL_ROUNDS && ours.cgroup >= 0; round++) {
    long count = tree_kill(collect_members, &ours);
    tree_release(count);
    if (count == 0) break;
  }
  return false;
}

/* Its processes are watched by the descriptor of os_events_open; this one is never ready. */
int os_boundary_events(const struct boundary *boundary) { return boundary->cgroup < 0 ? -1 : never_ready(); }

void os_boundary_events_read(int events) { (void)events; }

