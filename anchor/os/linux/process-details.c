/* Linux: details of a process in /proc besides its identity. All is read by pid: the caller verifies before and after
 * that the pid names the same process. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/linux/linux.h"

static char environment[256 * 1024];
static long environment_length;

bool os_environ_load(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  environment_length = read_file(path, environment, sizeof environment);
  return environment_length > 0;
}

const char *os_environ_value(const char *name) {
  size_t length = strlen(name);
  for (char *p = environment; environment_length > 0 && p < environment + environment_length; p += strlen(p) + 1)
    if (strncmp(p, name, length) == 0 && p[length] == '=') return p + length + 1;
  return NULL;
}

bool os_environ(pid_t pid, const char *name, char *out, size_t size) {
  const char *value = os_environ_load(pid) ? os_environ_value(name) : NULL;
  if (value != NULL) snprintf(out, size, "%s", value);
  return value != NULL;
}

long os_command_line(pid_t pid, char *out, size_t size) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  long length = read_file(path, out, size);
  return length < 0 ? 0 : length;
}

static bool read_link(const char *path, char *out, size_t size) {
  ssize_t length = readlink(path, out, size - 1);
  if (length > 0) out[length] = 0;
  return length > 0;
}

bool os_executable(pid_t pid, char *out, size_t size) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  return read_link(path, out, size);
}

bool os_descriptor(pid_t pid, int fd, char *out, size_t size) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  return read_link(path, out, size);
}

bool os_each_descriptor(os_pid pid, bool (*visit)(const char *, void *), void *of) {
  static char target[4096];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *descriptors = opendir(path);
  bool found = false;
  for (struct dirent *entry; !found && descriptors != NULL && (entry = readdir(descriptors)) != NULL;)
    found = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && os_descriptor(pid, atoi(entry->d_name), target, sizeof target) && visit(target, of);
  if (descriptors != NULL) closedir(descriptors);
  return found;
}

/* Resolved through the root of the process, which may be in another mount namespace or chroot. */
int os_path_seen_by(os_pid pid, const char *seen) {
  char path[4096 + 32];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d/root%s", pid, seen);
  if (stat(path, &st) == 0) return 1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}
