/* Linux: cgroup v2: where it is, and the cgroups of an instance. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "linux.h"

#define SUP_MAX (64 * 1024)

static char cgroup_root[PATH_SIZE], cgroup_root_path[PATH_SIZE];
static char came_from[PATH_SIZE]; /* the cgroup this process was started in */

bool find_cgroup_root(void) {
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
  const char *why = getenv("HOLDFAST_NO_SCOPE"); /* why the gateway has no delegated scope */
  snprintf(note, note_size, "cgroup %.100s: %s%s%s", step, strerror(errno), why == NULL ? "" : "; no scope: ", why == NULL ? "" : why);
  if (fits) os_cgroup_leave(runs);
  return false;
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
  size_t prefix = strlen(cgroup_root_path);
  return strncmp(recorded, cgroup_root_path, prefix) == 0 && join(out, size, cgroup_root, recorded + prefix);
}

void os_cgroup_recorded(const char *path, char *out, size_t size) {
  snprintf(out, size, "%.400s%.600s", cgroup_root_path, path + strlen(cgroup_root));
}

bool below_cgroup_root(const char *recorded, char *path, size_t size) {
  struct statfs fs;
  char own[PATH_SIZE];
  if (test_disable.cgroup || !find_cgroup_root() || !os_cgroup_of(getpid(), own, sizeof own) || strncmp(own, "/..", 3) == 0) return false;
  size_t prefix = strlen(cgroup_root_path);
  if (recorded[0] != '/' || strstr(recorded, "/..") != NULL) return false;
  if (!cgroup_directory(recorded, path, size) || (recorded[prefix] != '/' && prefix != 0)) return false;
  return statfs(cgroup_root, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC;
}

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
  if (!test_disable.cgroup && find_cgroup_root()) walk_cgroups(cgroup_root, 0, visit);
}
