/* macOS: details of a process besides its identity. All is read by pid: the caller verifies before and after that the
 * pid names the same process. */
#include <errno.h>
#include <libproc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysctl.h>

#include "os/darwin/darwin.h"

#define DESCRIPTORS 4096

/* As the kernel keeps it: the number of words, the path of the program, zeros, the words, the environment. The
 * environment of a program of the system itself is withheld. */
static char arguments[1024 * 1024 + 64];
static size_t words_at, environment_at, arguments_end;

/* Moves past `count` texts. */
static size_t skip_texts(size_t at, long count) {
  while (count-- > 0 && at < arguments_end) at += strlen(arguments + at) + 1;
  return at;
}

static bool load(pid_t pid) {
  int mib[] = {CTL_KERN, KERN_PROCARGS2, pid}, count;
  size_t size = sizeof arguments - 1;
  arguments_end = 0;
  if (sysctl(mib, 3, arguments, &size, NULL, 0) != 0 || size < sizeof count) return false;
  memcpy(&count, arguments, sizeof count);
  arguments_end = size;
  arguments[size] = 0;
  words_at = skip_texts(sizeof count, 1);
  while (words_at < arguments_end && arguments[words_at] == 0) words_at++;
  environment_at = skip_texts(words_at, count);
  return true;
}

bool os_environ_load(os_pid pid) { return load(pid) && environment_at < arguments_end && arguments[environment_at] != 0; }

const char *os_environ_value(const char *name) {
  size_t length = strlen(name);
  for (size_t at = environment_at; at < arguments_end && arguments[at] != 0; at = skip_texts(at, 1))
    if (strncmp(arguments + at, name, length) == 0 && arguments[at + length] == '=') return arguments + at + length + 1;
  return NULL;
}

bool os_environ(os_pid pid, const char *name, char *out, size_t size) {
  const char *value = os_environ_load(pid) ? os_environ_value(name) : NULL;
  if (value != NULL) snprintf(out, size, "%s", value);
  return value != NULL;
}

long os_command_line(os_pid pid, char *out, size_t size) {
  if (!load(pid)) return 0;
  size_t length = environment_at > words_at ? environment_at - words_at : 0;
  if (length >= size) length = size - 1;
  memcpy(out, arguments + words_at, length);
  out[length] = 0;
  return (long)length;
}

bool os_executable(os_pid pid, char *out, size_t size) { return proc_pidpath(pid, out, (uint32_t)size) > 0; }

/* ---- descriptors ---- */

static long list_descriptors(pid_t pid, struct proc_fdinfo *out) {
  int size = proc_pidinfo(pid, PROC_PIDLISTFDS, 0, out, DESCRIPTORS * (int)sizeof *out);
  return size <= 0 ? 0 : size / (long)sizeof *out;
}

/* Files have a path; of the rest only the kind is told. */
static bool describe(pid_t pid, const struct proc_fdinfo *descriptor, char *out, size_t size) {
  struct vnode_fdinfowithpath file;
  switch (descriptor->proc_fdtype) {
    case PROX_FDTYPE_VNODE:
      if (proc_pidfdinfo(pid, descriptor->proc_fd, PROC_PIDFDVNODEPATHINFO, &file, sizeof file) != (int)sizeof file) return false;
      snprintf(out, size, "%s", file.pvip.vip_path);
      return true;
    case PROX_FDTYPE_SOCKET: snprintf(out, size, "socket"); return true;
    case PROX_FDTYPE_PIPE: snprintf(out, size, "pipe"); return true;
    default: snprintf(out, size, "descriptor"); return true;
  }
}

bool os_descriptor(os_pid pid, int fd, char *out, size_t size) {
  static struct proc_fdinfo descriptors[DESCRIPTORS];
  long count = list_descriptors(pid, descriptors);
  for (long i = 0; i < count; i++)
    if (descriptors[i].proc_fd == fd) return describe(pid, &descriptors[i], out, size);
  return false;
}

bool os_each_descriptor(os_pid pid, bool (*visit)(const char *target, void *of), void *of) {
  static struct proc_fdinfo descriptors[DESCRIPTORS];
  static char target[4096];
  long count = list_descriptors(pid, descriptors);
  for (long i = 0; i < count; i++)
    if (describe(pid, &descriptors[i], target, sizeof target) && visit(target, of)) return true;
  return false;
}

/* A Mac has one file system for all processes. */
int os_path_seen_by(os_pid pid, const char *path) {
  struct stat st;
  (void)pid;
  if (stat(path, &st) == 0) return 1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}
