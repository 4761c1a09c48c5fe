/* Linux: where cgroup v2 is mounted, and which paths its directories have in records; removing them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/linux/linux.h"

static char cgroup_root[PATH_SIZE], cgroup_root_path[PATH_SIZE];

const char *cgroup_root_directory(void) { return find_cgroup_root() ? cgroup_root : NULL; }

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

bool os_boundary_path_of(pid_t pid, char *out, size_t size) {
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

bool cgroup_own(char *out, size_t size) {
  char own[PATH_SIZE];
  if (!find_cgroup_root() || !os_boundary_path_of(getpid(), own, sizeof own)) return errno = ENOENT, false;
  size_t prefix = strlen(cgroup_root_path);
  if (strncmp(own, cgroup_root_path, prefix) != 0 || strncmp(own, "/..", 3) == 0) return errno = EXDEV, false;
  errno = ENAMETOOLONG;
  return join(out, size, cgroup_root, strcmp(own, "/") == 0 ? "" : own + prefix);
}

bool cgroup_directory(const char *recorded, char *out, size_t size) {
  size_t prefix = strlen(cgroup_root_path);
  return strncmp(recorded, cgroup_root_path, prefix) == 0 && join(out, size, cgroup_root, recorded + prefix);
}

void os_boundary_recorded_path(const char *path, char *out, size_t size) {
  snprintf(out, size, "%.400s%.600s", cgroup_root_path, path + strlen(cgroup_root));
}

bool below_cgroup_root(const char *recorded, char *path, size_t size) {
  struct statfs fs;
  char own[PATH_SIZE];
  if (test_disable.cgroup || !find_cgroup_root() || !os_boundary_path_of(getpid(), own, sizeof own) || strncmp(own, "/..", 3) == 0) return false;
  size_t prefix = strlen(cgroup_root_path);
  if (recorded[0] != '/' || strstr(recorded, "/..") != NULL) return false;
  if (!cgroup_directory(recorded, path, size) || (recorded[prefix] != '/' && prefix != 0)) return false;
  return statfs(cgroup_root, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC;
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
