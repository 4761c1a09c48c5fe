/* Preloaded: each write to a database or a file, and each sync, takes as many milliseconds as the file named by SLOW_DISK says. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void delay(void) {
  const char *path = getenv("SLOW_DISK");
  if (path == NULL) return;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char text[16] = {0};
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return;
  long ms = atol(text);
  struct timespec time = {ms / 1000, (ms % 1000) * 1000000};
  nanosleep(&time, NULL);
}

#define NEXT(type, name) type next = (type)dlsym(RTLD_NEXT, name)

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  typedef ssize_t (*function)(int, const void *, size_t, off64_t);
  NEXT(function, "pwrite64");
  delay();
  return next(fd, bytes, count, at);
}

int fsync(int fd) {
  typedef int (*function)(int);
  NEXT(function, "fsync");
  delay();
  return next(fd);
}

int fdatasync(int fd) {
  typedef int (*function)(int);
  NEXT(function, "fdatasync");
  delay();
  return next(fd);
}
