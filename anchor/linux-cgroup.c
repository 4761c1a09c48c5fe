/* Linux: cgroup v2: the cgroups of an instance, and the boundary of a run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "linux.h"

#define CGROUP2_MAGIC 0x63677270
#define SUP_MAX (64 * 1024)

static char cgroup_root[PATH_SIZE], cgroup_root_path[PATH_SIZE];
static char came_from[PATH_SIZE]; /* the cgroup this process was started in */

/* Finds where cgroup2 is mounted, and which of its directories is the root of the mount. */
static bool find_cgroup_root(void) {
  static char info[64 * 1024];
  if (cgroup_root[0] != 0) return true;
  if (read_file("/proc/self/mountinfo", info, sizeof info) <= 0) return false;
  char *rest = info;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char root[512], mount[512];
    char *type = strstr(line, " - ");
    if (type == NULL || strncmp(type, " - cgroup2 ", 11) != 0) continue;
    if (sscanf(line, "%*d %*d %*s %511s %511s", root, mount) != 2) continue;
    snprintf(cgroup_root, sizeof cgroup_root, "%s", mount);
    snprintf(cgroup_root_path, sizeof cgroup_root_path, "%s", strcmp(root, "/") == 0 ? "" : root);
    return true;
  }
  return false;
}

bool os_cgroup_of(pid_t pid, char *out, size_t size) {
  char path[32], text[4096];
  snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
  if (read_file(path, text, sizeof text) <= 0) return false;
  char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
  if (line == NULL) return false;
  line += line == text ? 3 : 4;
  line[strcspn(line, "\n")] = 0;
  snprintf(out, size, "%s", line);
  return true;
}

bool join(char *out, size_t size, const char *a, const char *b) {
  return (size_t)snprintf(out, size, "%s%s", a, b) < size;
}

bool write_in(const char *dir, const char *name, const char *text) {
  char path[PATH_SIZE + 64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return write_at(AT_FDCWD, path, text);
}

static void cut_end(char *text, const char *end) {
  size_t length = strlen(text), cut = strlen(end);
  if (length >= cut && strcmp(text + length - cut, end) == 0) text[length - cut] = 0;
}

bool cgroup_own(char *out, size_t size) {
  char own[PATH_SIZE];
  if (!find_cgroup_root() || !os_cgroup_of(getpid(), own, sizeof own)) return errno = ENOENT, false;
  size_t prefix = strlen(cgroup_root_path);
  if (strncmp(own, cgroup_root_path, prefix) != 0 || strncmp(own, "/..", 3) == 0) return errno = EXDEV, false;
  errno = ENAMETOOLONG;
  return join(out, size, cgroup_root, strcmp(own, "/") == 0 ? "" : own + prefix);
}

bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  char own[PATH_SIZE], here[PATH_SIZE], base[PATH_SIZE], sup[PATH_SIZE], leaf[96], seat[112];
  if (test_disable.cgroup) {
    snprintf(note, note_size, "cgroups are disabled");
    return false;
  }
  if (!cgroup_own(here, sizeof here)) {
    if (errno == ENOENT) snprintf(note, note_size, "no cgroup v2 is mounted");
    else if (os_cgroup_of(getpid(), own, sizeof own)) snprintf(note, note_size, "our cgroup %.100s is not visible here", own);
    return false;
  }
  snprintf(leaf, sizeof leaf, "/holdfast-%s", place);
  snprintf(seat, sizeof seat, "%s/sup", leaf);
  cut_end(here, seat); /* a supervisor moved there when a limit was set */
  snprintf(came_from, sizeof came_from, "%s", here);
  cut_end(here, "/holdfast-gateway"); /* DelegateSubgroup of a systemd unit: the delegated cgroup is above it */
  bool fits = join(base, sizeof base, here, leaf) && join(sup, sizeof sup, base, "/sup") && join(runs, size, base, "/runs");
  char *step = base;
  if (!fits) {
    errno = ENAMETOOLONG;
  } else if ((mkdir(base, 0755) == 0 || errno == EEXIST) && (step = sup, mkdir(sup, 0755) == 0 || errno == EEXIST) &&
             (step = runs, mkdir(runs, 0755) == 0 || errno == EEXIST) &&
             (step = sup, write_in(sup, "cgroup.procs", "0"))) {
    char probe[PATH_SIZE + 32];
    snprintf(probe, sizeof probe, "%s/cgroup.kill", runs);
    if (access(probe, W_OK) == 0) return true;
    snprintf(note, note_size, "the kernel has no cgroup.kill (older than 5.14)");
    os_cgroup_leave(runs);
    return false;
  }
  snprintf(note, note_size, "cgroup %.150s: %s", step, strerror(errno));
  if (fits) os_cgroup_leave(runs);
  return false;
}

/* NULL: it is gone, or there are no free descriptors. */
static DIR *open_entries(int dir) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL && fd >= 0) close(fd);
  return entries;
}

void remove_tree(int dir) {
  DIR *entries = open_entries(dir);
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (child < 0) continue;
    remove_tree(child);
    close(child);
    unlinkat(dir, entry->d_name, AT_REMOVEDIR);
  }
  closedir(entries);
}

/* Moves the processes in `sup` back. A cgroup with enabled controllers accepts no processes: then they were enabled
 * for us, and are disabled. */
static void leave_sup(const char *sup, const char *const chain[3]) {
  static const char *const words[] = {"-memory", "-pids", "-cpu"};
  static char text[SUP_MAX];
  char path[PATH_SIZE + 32];
  if (!write_in(came_from, "cgroup.procs", "0") && errno == EBUSY)
    for (int i = 0; i < 9; i++) write_in(chain[i / 3], "cgroup.subtree_control", words[i % 3]);
  snprintf(path, sizeof path, "%s/cgroup.procs", sup);
  if (read_file(path, text, sizeof text) <= 0) return;
  char *rest = text;
  for (char *pid; (pid = strsep(&rest, "\n")) != NULL && *pid != 0;) write_in(came_from, "cgroup.procs", pid);
}

void os_cgroup_leave(const char *runs) {
  char base[PATH_SIZE], parent[PATH_SIZE], sup[PATH_SIZE + 8];
  snprintf(base, sizeof base, "%s", runs);
  char *slash = strrchr(base, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(parent, sizeof parent, "%s", base);
  slash = strrchr(parent, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(sup, sizeof sup, "%s/sup", base);
  if (rmdir(runs) != 0 && errno == EBUSY) { /* an abandoned run whose last process has died since left its cgroup */
    int dir = open(runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir >= 0) {
      remove_tree(dir);
      close(dir);
    }
    rmdir(runs);
  }
  leave_sup(sup, (const char *const[]){runs, base, parent});
  rmdir(sup);
  rmdir(base);
  for (int kind = 0; kind < LIMITS; kind++) {
    if (!os_limits_place((enum limit)kind, runs, base, sizeof base)) continue;
    int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0) continue;
    remove_tree(dir);
    close(dir);
    rmdir(base);
  }
}

bool cgroup_directory(const char *recorded, char *out, size_t size) {
  return join(out, size, cgroup_root, recorded + strlen(cgroup_root_path));
}

void os_cgroup_recorded(const char *path, char *out, size_t size) {
  snprintf(out, size, "%.400s%.600s", cgroup_root_path, path + strlen(cgroup_root));
}

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
  os_cgroup_recorded(path, boundary->path, sizeof boundary->path);
  return true;
}

#define WALK_DEPTH 16

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
  DIR *entries = depth < WALK_DEPTH ? opendir(path) : NULL;
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
  if (!test_disable.cgroup && find_cgroup_root()) walk_cgroups(cgroup_root, 0, visit);
}

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
  size_t prefix = strlen(cgroup_root_path);
  if (strncmp(recorded, cgroup_root_path, prefix) != 0 || !join(path, sizeof path, cgroup_root, recorded + prefix)) return false;
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

/* Converts a recorded path. False unless the mount exists and shows our own cgroup; otherwise a missing path proves
 * nothing. */
static bool below_cgroup_root(const char *recorded, char *path, size_t size) {
  struct statfs fs;
  char own[PATH_SIZE];
  if (test_disable.cgroup || !find_cgroup_root() || !os_cgroup_of(getpid(), own, sizeof own) || strncmp(own, "/..", 3) == 0) return false;
  size_t prefix = strlen(cgroup_root_path);
  if (recorded[0] != '/' || strstr(recorded, "/..") != NULL) return false;
  if (strncmp(recorded, cgroup_root_path, prefix) != 0 || (recorded[prefix] != '/' && prefix != 0)) return false;
  if (!join(path, size, cgroup_root, recorded + prefix)) return false;
  return statfs(cgroup_root, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC;
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

bool os_boundary_empty(const struct boundary *boundary) {
  char text[256];
  if (boundary->cgroup < 0) return true;
  long length = read_file_at(boundary->cgroup, "cgroup.events", text, sizeof text);
  /* The directory is gone: a removed cgroup has no processes. */
  return length < 0 ? errno == ENOENT || errno == ENODEV : strstr(text, "populated 0") != NULL;
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
  if (!os_cgroup_of(pid, path, sizeof path)) return lists(cgroup, pid);
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

static bool found_before(const struct member *found, long count, pid_t pid) {
  while (count-- > 0)
    if (found[count].id.pid == pid) return true;
  return false;
}

/* Adds the processes of one cgroup and of nested ones. A process that moves meanwhile is added once. */
static long members_below(const struct boundary *boundary, int cgroup, int depth, struct member *out, long count, long max) {
  static char text[64 * 1024];
  if (read_file_at(cgroup, "cgroup.procs", text, sizeof text) < 0) return depth == 0 ? -1 : count;
  const pid_t *pids;
  long listed = listed_pids(text, &pids), before = count;
  for (long i = 0; i < listed && count < max; i++) {
    if (found_before(out, before, pids[i]) || !os_read_process(pids[i], &out[count])) continue;
    if (holds_in(boundary, cgroup, pids[i]) && (out[count].handle < 0 || still_alive(out[count].handle))) count++;
    else os_release(&out[count]);
  }
  DIR *entries = depth < WALK_DEPTH ? open_entries(cgroup) : NULL;
  if (entries == NULL) return count;
  for (struct dirent *entry; count < max && (entry = readdir(entries)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int nested = openat(cgroup, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (nested < 0) continue;
    count = members_below(boundary, nested, depth + 1, out, count, max);
    close(nested);
  }
  closedir(entries);
  return count;
}

long os_boundary_members(const struct boundary *boundary, struct member *out, long max) {
  return boundary->cgroup < 0 ? 0 : members_below(boundary, boundary->cgroup, 0, out, 0, max);
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
