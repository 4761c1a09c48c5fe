/* The connection of the anchor to kernel.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim.h"

static void path_of(const char *suffix, char *out, size_t size) {
  struct stat st = {0};
  (void)stat("/proc/self/ns/pid", &st);
  snprintf(out, size, "/dev/shm/hf-darwin-%llu%s", (unsigned long long)st.st_ino, suffix);
}

void table_path(char *out, size_t size) { path_of(".table", out, size); }

void socket_path(char *out, size_t size) { path_of(".sock", out, size); }

const struct table *table_of_kernel(void) {
  static const struct table *table;
  char path[128];
  struct stat st;
  if (table != NULL) return table;
  table_path(path, sizeof path);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  if (fstat(file, &st) == 0 && st.st_size > 0) {
    void *memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) table = memory;
  }
  close(file);
  return table;
}

int connect_kernel(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socket_path(address.sun_path, sizeof address.sun_path);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

/* A connection of its own: the anchor closes descriptors that it does not know. */
bool sync_kernel(void) {
  int fd = connect_kernel();
  int32_t request = SYNC, answer;
  ssize_t n = -1;
  if (fd < 0) return false;
  if (send(fd, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request)
    while ((n = recv(fd, &answer, sizeof answer, 0)) < 0 && errno == EINTR) continue;
  close(fd);
  return n == (ssize_t)sizeof answer;
}
