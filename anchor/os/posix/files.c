/* POSIX: files, directories, memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix/posix.h"

const char *const os_program_suffix = "";

const char *os_file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

bool os_is_absolute(const char *path) { return path[0] == '/'; }

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

static bool take_info(bool known, const struct stat *st, struct os_file_info *out) {
  if (known)
    *out = (struct os_file_info){.device = (uint64_t)st->st_dev, .inode = (uint64_t)st->st_ino, .size = (uint64_t)st->st_size,
                                 .modified = (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec};
  return known;
}

bool os_file_info(int fd, struct os_file_info *out) {
  struct stat st;
  return take_info(fstat(fd, &st) == 0, &st, out);
}

bool os_file_info_at(int dir, const char *name, struct os_file_info *out) {
  struct stat st;
  return take_info(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0, &st, out);
}

bool os_path_info(const char *path, struct os_file_info *out) {
  struct stat st;
  return take_info(stat(path, &st) == 0, &st, out);
}

void os_path_remove(const char *path) { unlink(path); }

bool os_directory_create(const char *path) { return mkdir(path, 0700) == 0; }

int os_directory_open(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); }

bool os_directory_rename(const char *from, const char *to) { return rename(from, to) == 0; }

void os_directory_remove(const char *path) { rmdir(path); }

int os_file_append_to(int dir, const char *name) {
  return openat(dir, name, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool os_file_create(int dir, const char *name) {
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

long os_file_append(int fd, const void *data, size_t size) { return os_write(fd, data, size); }

bool os_file_truncate(int fd, uint64_t size) { return ftruncate(fd, (off_t)size) == 0; }

int64_t os_file_hole(int fd) { return (int64_t)lseek(fd, 0, SEEK_HOLE); }

void os_file_remove(int dir, const char *name) { unlinkat(dir, name, 0); }

static int open_temporary(int dir, const char *name, char *temporary, size_t size) {
  snprintf(temporary, size, ".%s.new", name);
  return openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void os_file_prepare(int dir, const char *name) {
  char temporary[64];
  int fd = open_temporary(dir, name, temporary, sizeof temporary);
  if (fd >= 0) close(fd);
}

bool os_file_save(int dir, const char *name, const void *data, size_t size) {
  char temporary[64];
  int fd = open_temporary(dir, name, temporary, sizeof temporary);
  if (fd < 0) return false;
  ssize_t n = write(fd, data, size);
  int error = n < 0 ? errno : n == (ssize_t)size ? 0 : ENOSPC;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && renameat(dir, temporary, dir, name) == 0) return true;
  if (error == 0) error = errno;
  unlinkat(dir, temporary, 0);
  errno = error;
  return false;
}

int os_lock_inherited(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

static void *map(size_t size, int sharing) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void *os_map(size_t size) { return map(size, MAP_PRIVATE); }

void *os_map_shared(size_t size) { return map(size, MAP_SHARED); }

void os_unmap(void *memory, size_t size) { (void)munmap(memory, size); }
