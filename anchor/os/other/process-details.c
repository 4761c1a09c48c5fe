/* Other POSIX systems: details of other processes, of which none are known. */
#include <errno.h>
#include <sys/stat.h>

#include "os/other/other.h"

bool os_environ_load(os_pid pid) {
  (void)pid;
  return false;
}

const char *os_environ_value(const char *name) {
  (void)name;
  return NULL;
}

bool os_environ(os_pid pid, const char *name, char *out, size_t size) {
  (void)pid;
  (void)name;
  (void)out;
  (void)size;
  return false;
}

long os_command_line(os_pid pid, char *out, size_t size) {
  (void)pid;
  (void)out;
  (void)size;
  return 0;
}

bool os_executable(os_pid pid, char *out, size_t size) {
  (void)pid;
  (void)out;
  (void)size;
  return false;
}

bool os_descriptor(os_pid pid, int fd, char *out, size_t size) {
  (void)pid;
  (void)fd;
  (void)out;
  (void)size;
  return false;
}

bool os_each_descriptor(os_pid pid, bool (*visit)(const char *target, void *of), void *of) {
  (void)pid;
  (void)visit;
  (void)of;
  return false;
}

int os_path_seen_by(os_pid pid, const char *path) {
  struct stat st;
  (void)pid;
  if (stat(path, &st) == 0) return 1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}
