/* Linux: small files of /proc and cgroups, read and written whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/linux.h"

long read_file_at(int dir, const char *path, char *out, size_t size) {
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) record_lookup_failure();
  if (fd < 0) return -1;
  size_t used = 0;
  ssize_t n;
  while (used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0) used += (size_t)n;
  close(fd);
  out[used] = 0;
  return (long)used;
}

long read_file(const char *path, char *out, size_t size) { return read_file_at(AT_FDCWD, path, out, size); }

bool write_at(int dir, const char *name, const char *text) {
  int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

bool write_in(const char *dir, const char *name, const char *text) {
  char path[PATH_SIZE + 64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return write_at(AT_FDCWD, path, text);
}

/* NULL: it is gone, or there are no free descriptors. */
DIR *open_entries(int dir) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL && fd >= 0) close(fd);
  return entries;
}
