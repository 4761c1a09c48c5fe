/* macOS: the boundary of a run, its lineage. The file that records it is in a directory of this user, one for each
 * instance, as a cgroup is on Linux: a launcher finds it by the run's id, and `anchor reap` by its path and inode. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "darwin.h"
#include "tree.h"

#define PREFIX "holdfast-"
#define RUNS "/runs"
#define KILL_ROUNDS 4

static bool prepare_failed; /* also in the anchors of a launcher: it would not find the run of one that died */

/* ---- the directory of an instance ---- */

static bool base_directory(char *out, size_t size) {
  size_t length = confstr(_CS_DARWIN_USER_CACHE_DIR, out, size); /* kept while the system runs, and only for this user */
  if (length == 0 || length > size) return false;
  for (length = strlen(out); length > 1 && out[length - 1] == '/';) out[--length] = 0;
  return true;
}

static bool make_own(const char *path) {
  struct stat st;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
  if (lstat(path, &st) != 0) return false;
  errno = EPERM;
  return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  char base[PATH_SIZE / 2] = "", instance[PATH_SIZE];
  note[0] = 0;
  prepare_failed = true;
  bool found = base_directory(base, sizeof base);
  if (found) snprintf(instance, sizeof instance, "%s/" PREFIX "%s", base, place);
  if (found && (size_t)snprintf(runs, size, "%s" RUNS, instance) < size && make_own(instance) && make_own(runs)) prepare_failed = false;
  else snprintf(note, note_size, "directory of lineages in %s: %s", base, strerror(errno));
  return !prepare_failed;
}

void os_cgroup_leave(const char *runs) {
  char instance[PATH_SIZE];
  if (rmdir(runs) != 0) return;
  snprintf(instance, sizeof instance, "%.*s", (int)(strlen(runs) - strlen(RUNS)), runs);
  (void)rmdir(instance);
}

void os_cgroup_recorded(const char *path, char *out, size_t size) { snprintf(out, size, "%s", path); }

bool os_cgroup_of(os_pid pid, char *out, size_t size) {
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

static int open_record(const char *path) { return open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); }

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  char path[PATH_SIZE];
  *boundary = (struct boundary){.cgroup = -1};
  errno = ENAMETOOLONG;
  return (size_t)snprintf(path, sizeof path, "%s/%s", runs, run_id) < sizeof path && take(boundary, open_record(path), path, false);
}

/* Without a launcher nobody would read the file of a run whose anchor has died: the lineage is only in memory. */
static int create_record(const char *path) {
  if (path[0] == 0) return open("/dev/null", O_RDWR | O_CLOEXEC);
  int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 || record_begin(file)) return file;
  close(file);
  unlink(path);
  return -1;
}

void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  char path[PATH_SIZE] = "";
  bool named = runs == NULL || (size_t)snprintf(path, sizeof path, "%s/%s", runs, run_id) < sizeof path;
  bool opened = named && !prepare_failed && take(boundary, create_record(path), path, true);
  int error = errno;
  if (!opened) *boundary = (struct boundary){.cgroup = -1};
  if (opened || prepare_failed) snprintf(boundary->note, sizeof boundary->note, "%s", note);
  else snprintf(boundary->note, sizeof boundary->note, "the lineage of this run cannot be recorded: %s", strerror(error));
}

bool os_boundary_reopen(struct boundary *boundary, const char *recorded, uint64_t inode) {
  char base[PATH_SIZE / 2];
  *boundary = (struct boundary){.cgroup = -1};
  size_t length = base_directory(base, sizeof base) ? strlen(base) : 0;
  if (length == 0 || strncmp(recorded, base, length) != 0 || strncmp(recorded + length, "/" PREFIX, strlen("/" PREFIX)) != 0) return false;
  if (strstr(recorded, RUNS "/") == NULL || strstr(recorded, "/..") != NULL) return false;
  if (!take(boundary, open_record(recorded), recorded, false)) return false;
  if (boundary->inode == inode) return true;
  os_boundary_close(boundary);
  return false;
}

/* A missing file proves nothing: a program that frees space may have removed it. */
const char *os_boundary_state(const char *path, uint64_t inode) {
  struct boundary boundary;
  if (!os_boundary_reopen(&boundary, path, inode)) return "unknown";
  long count = os_boundary_members(&boundary, members, tree_max());
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
bool os_boundary_empty(const struct boundary *boundary) {
  return boundary->cgroup >= 0 && lineage_scan() && lineage_empty(boundary->cgroup);
}

bool os_boundary_holds(const struct boundary *boundary, os_pid pid) { return boundary->cgroup < 0 || lineage_holds(boundary->cgroup, pid); }

long os_boundary_members(const struct boundary *boundary, struct member *out, long max) {
  if (boundary->cgroup < 0) return 0;
  (void)lineage_scan();
  return lineage_members(boundary->cgroup, out, max);
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

/* ---- survey ---- */

static void visit_runs(const char *instance, const char *place, void (*visit)(const struct boundary *, const char *, const char *)) {
  char runs[PATH_SIZE];
  struct boundary boundary;
  snprintf(runs, sizeof runs, "%.1000s" RUNS, instance);
  DIR *entries = opendir(runs);
  for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.' || !os_boundary_find(&boundary, runs, entry->d_name)) continue;
    visit(&boundary, place, entry->d_name);
    os_boundary_close(&boundary);
  }
  if (entries != NULL) closedir(entries);
}

void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id)) {
  char base[PATH_SIZE / 2], instance[PATH_SIZE];
  DIR *entries = base_directory(base, sizeof base) ? opendir(base) : NULL;
  for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
    snprintf(instance, sizeof instance, "%s/%.400s", base, entry->d_name);
    visit_runs(instance, entry->d_name + strlen(PREFIX), visit);
  }
  if (entries != NULL) closedir(entries);
}
