/* Linux: the boundary of a run, a cgroup of its own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/linux/linux.h"

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  char path[PATH_SIZE], leaf[96];
  struct stat st;
  memset(boundary, 0, sizeof *boundary);
  boundary->cgroup = -1;
  snprintf(leaf, sizeof leaf, "/%s", run_id);
  if (!find_cgroup_root() || !join(path, sizeof path, runs, leaf)) return false;
  boundary->cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (boundary->cgroup < 0) return false;
  boundary->inode = fstat(boundary->cgroup, &st) == 0 ? (uint64_t)st.st_ino : 0;
  os_boundary_recorded_path(path, boundary->path, sizeof boundary->path);
  return true;
}

bool os_is_boundary_path(const char *path) { return path[0] == '/'; }

const char *os_boundary_kind(const struct boundary *boundary) { return boundary->path[0] != 0 ? "cgroup" : "subreaper"; }

void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  char path[PATH_SIZE], leaf[96];
  *boundary = (struct boundary){.cgroup = -1};
  snprintf(boundary->note, sizeof boundary->note, "%s", note);
  if (runs == NULL) return;
  snprintf(leaf, sizeof leaf, "/%s", run_id);
  if (join(path, sizeof path, runs, leaf) && mkdir(path, 0755) == 0 && os_boundary_find(boundary, runs, run_id)) return;
  int error = errno;
  snprintf(boundary->note, sizeof boundary->note, "cgroup for this run: %s", strerror(error));
  errno = error;
}

bool os_boundary_reopen(struct boundary *boundary, const char *recorded, uint64_t inode) {
  char path[PATH_SIZE];
  struct stat st;
  memset(boundary, 0, sizeof *boundary);
  boundary->cgroup = -1;
  char *ours = strstr(recorded, "/holdfast-"); /* only a run's own directory, never `sup` or above */
  if (!find_cgroup_root() || ours == NULL || strstr(ours, "/runs/") == NULL || strstr(recorded, "/..") != NULL) return false;
  if (!cgroup_directory(recorded, path, sizeof path)) return false;
  boundary->cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (boundary->cgroup < 0) return false;
  if (fstat(boundary->cgroup, &st) == 0 && (uint64_t)st.st_ino == inode) {
    boundary->inode = inode;
    snprintf(boundary->path, sizeof boundary->path, "%s", recorded);
    return true;
  }
  close(boundary->cgroup);
  boundary->cgroup = -1;
  return false;
}

const char *os_boundary_state(const char *recorded, uint64_t inode) {
  char path[PATH_SIZE], text[256];
  struct stat st;
  struct statfs fs;
  if (!below_cgroup_root(recorded, path, sizeof path)) return "unknown";
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (dir < 0) return errno == ENOENT ? "gone" : "unknown";
  const char *state = "unknown";
  if (fstatfs(dir, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC && fstat(dir, &st) == 0) {
    if ((uint64_t)st.st_ino != inode) state = "gone";
    else if (read_file_at(dir, "cgroup.events", text, sizeof text) < 0) state = errno == ENOENT || errno == ENODEV ? "gone" : "unknown";
    else if (strstr(text, "populated 0") != NULL) state = "empty";
    else if (strstr(text, "populated 1") != NULL) state = "populated";
  }
  close(dir);
  return state;
}

enum emptiness os_boundary_emptiness(const struct boundary *boundary) {
  char text[256];
  if (boundary->cgroup < 0) return EMPTY;
  long length = read_file_at(boundary->cgroup, "cgroup.events", text, sizeof text);
  /* The directory is gone: a removed cgroup has no processes. */
  return (length < 0 ? errno == ENOENT || errno == ENODEV : strstr(text, "populated 0") != NULL) ? EMPTY : OCCUPIED;
}

void os_boundary_doubt(char *out, size_t size) {
  (void)size;
  out[0] = 0;
}

/* The launcher is a subreaper. */
enum emptiness os_boundary_missing(int error) {
  (void)error;
  return EMPTY;
}

/* For a process that /proc hides, only the cgroup itself shows that it is in it. */
static bool lists(int cgroup, pid_t pid) {
  static char text[64 * 1024];
  if (read_file_at(cgroup, "cgroup.procs", text, sizeof text) < 0) return false;
  for (char *at = text, *end; *at != 0; at = *end == 0 ? end : end + 1)
    if (strtol(at, &end, 10) == pid || end == at) return end != at;
  return false;
}

/* `cgroup` is the boundary's own, or a nested one that listed this process. */
static bool holds_in(const struct boundary *boundary, int cgroup, pid_t pid) {
  char path[PATH_SIZE];
  size_t length = strlen(boundary->path);
  if (!os_boundary_path_of(pid, path, sizeof path)) return lists(cgroup, pid);
  return strncmp(path, boundary->path, length) == 0 && (path[length] == 0 || path[length] == '/');
}

bool os_boundary_holds(const struct boundary *boundary, pid_t pid) {
  return boundary->cgroup < 0 || holds_in(boundary, boundary->cgroup, pid);
}

bool os_boundary_kill(const struct boundary *boundary) {
  if (boundary->cgroup < 0 || os_boundary_holds(boundary, getpid())) return false;
  const pid_t *ancestors;
  for (int i = walk_ancestors(&ancestors); i-- > 0;)
    if (os_boundary_holds(boundary, ancestors[i])) return false;
  return write_at(boundary->cgroup, "cgroup.kill", "1");
}

bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms) {
  char text[256];
  uint64_t until = os_now_ms() + patience_ms;
  int events = openat(boundary->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
  bool frozen = false, asked = events >= 0 && write_at(boundary->cgroup, "cgroup.freeze", "1");
  while (asked && !frozen) {
    struct os_poll p = {.fd = events, .wants = OS_PRIORITY};
    ssize_t n = pread(events, text, sizeof text - 1, 0);
    if (n <= 0) break;
    text[n] = 0;
    frozen = strstr(text, "frozen 1") != NULL;
    uint64_t now = os_now_ms();
    if (frozen || now >= until) break;
    os_poll(&p, 1, (int)(until - now));
  }
  if (events >= 0) close(events);
  if (asked && !frozen) errno = ETIMEDOUT;
  return frozen;
}

void os_boundary_thaw(const struct boundary *boundary) { (void)write_at(boundary->cgroup, "cgroup.freeze", "0"); }

bool os_boundary_move(const struct boundary *boundary, pid_t pid) {
  char text[16];
  snprintf(text, sizeof text, "%d", pid);
  return write_at(boundary->cgroup, "cgroup.procs", text);
}

int os_boundary_events(const struct boundary *boundary) {
  return boundary->cgroup < 0 ? -1 : openat(boundary->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
}

void os_boundary_events_read(int events) { (void)!pread(events, (char[256]){0}, 256, 0); }

void os_boundary_close(struct boundary *boundary) {
  if (boundary->cgroup >= 0) close(boundary->cgroup);
  boundary->cgroup = -1;
}

/* The processes to leave out; `skip` may be NULL. */
struct left_out {
  bool (*skip)(pid_t, const void *);
  const void *of;
};

static bool found_before(const struct member *found, long count, pid_t pid) {
  while (count-- > 0)
    if (found[count].id.pid == pid) return true;
  return false;
}

/* Adds the processes of one cgroup and of nested ones. A process that moves meanwhile is added once. */
static long members_below(const struct boundary *boundary, int cgroup, int depth, struct member *out, long count, long max, struct left_out left_out) {
  static char text[64 * 1024];
  if (read_file_at(cgroup, "cgroup.procs", text, sizeof text) < 0) return depth == 0 ? -1 : count;
  const pid_t *pids;
  long listed = listed_pids(text, &pids), before = count;
  for (long i = 0; i < listed && count < max; i++) {
    if (left_out.skip != NULL && left_out.skip(pids[i], left_out.of)) continue;
    if (found_before(out, before, pids[i]) || !os_read_process(pids[i], &out[count])) continue;
    if (holds_in(boundary, cgroup, pids[i]) && (out[count].handle < 0 || still_alive(out[count].handle))) count++;
    else os_release(&out[count]);
  }
  DIR *entries = depth < CGROUP_DEPTH ? open_entries(cgroup) : NULL;
  if (entries == NULL) return count;
  for (struct dirent *entry; count < max && (entry = readdir(entries)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int nested = openat(cgroup, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (nested < 0) continue;
    count = members_below(boundary, nested, depth + 1, out, count, max, left_out);
    close(nested);
  }
  closedir(entries);
  return count;
}

long os_boundary_members(const struct boundary *boundary, struct member *out, long max, bool (*skip)(pid_t, const void *), const void *of) {
  if (boundary->cgroup < 0) return 0;
  return members_below(boundary, boundary->cgroup, 0, out, 0, max, (struct left_out){.skip = skip, .of = of});
}

void os_boundary_remove(struct boundary *boundary) {
  char path[PATH_SIZE];
  if (boundary->cgroup < 0) return;
  limits_remove(boundary->path);
  if (cgroup_directory(boundary->path, path, sizeof path) && rmdir(path) != 0 && errno != ENOENT) {
    remove_tree(boundary->cgroup); /* a run may have created nested cgroups */
    rmdir(path);
  }
  close(boundary->cgroup);
  boundary->cgroup = -1;
}

/* ---- the boundaries of all instances ---- */

/* Visits the cgroups of one instance's runs, in `runs`. */
static void visit_runs(const char *runs, const char *place, void (*visit)(const struct boundary *, const char *, const char *)) {
  DIR *entries = opendir(runs);
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    struct boundary boundary;
    struct stat st;
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || !os_boundary_find(&boundary, runs, entry->d_name)) continue;
    bool ours = fstat(boundary.cgroup, &st) == 0 && (getuid() == 0 || st.st_uid == getuid());
    if (ours) visit(&boundary, place, entry->d_name);
    close(boundary.cgroup);
  }
  closedir(entries);
}

static void walk_cgroups(const char *path, int depth, void (*visit)(const struct boundary *, const char *, const char *)) {
  char below[PATH_SIZE], runs[PATH_SIZE];
  DIR *entries = depth < CGROUP_DEPTH ? opendir(path) : NULL;
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    if (!join(below, sizeof below, path, "/") || !join(runs, sizeof runs, below, entry->d_name)) continue;
    snprintf(below, sizeof below, "%s", runs);
    if (strncmp(entry->d_name, "holdfast-", 9) == 0 && join(runs, sizeof runs, below, "/runs")) visit_runs(runs, entry->d_name + 9, visit);
    walk_cgroups(below, depth + 1, visit);
  }
  closedir(entries);
}

void os_each_boundary(void (*visit)(const struct boundary *, const char *, const char *)) {
  if (!test_disable.cgroup && find_cgroup_root()) walk_cgroups(cgroup_root_directory(), 0, visit);
}
