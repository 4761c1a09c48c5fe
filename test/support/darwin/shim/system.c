/* sysctl(3) and the rest of what macOS has and Linux has not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "shim.h"

static ssize_t read_proc(int pid, const char *name, char *out, size_t size) {
  char path[64];
  size_t used = 0;
  ssize_t n;
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  while (used < size && (n = read(fd, out + used, size - used)) > 0) used += (size_t)n;
  close(fd);
  return (ssize_t)used;
}

int sysctl(int *mib, unsigned count, void *out, size_t *size, void *in, size_t in_size) {
  (void)in;
  (void)in_size;
  char *to = out;
  if (count != 3 || mib[0] != CTL_KERN || mib[1] != KERN_PROCARGS2) return errno = EINVAL, -1;
  if (*size < 4096) return errno = ENOMEM, -1;
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", mib[2]);
  size_t at = sizeof(int);
  ssize_t n = readlink(path, to + at, 1024);
  if (n <= 0) return errno = EINVAL, -1;
  at += (size_t)n;
  memset(to + at, 0, 4);
  at += 4;
  n = read_proc(mib[2], "cmdline", to + at, *size - at - 1);
  if (n <= 0) return errno = EINVAL, -1;
  int words = 0;
  for (ssize_t i = 0; i < n; i++) words += to[at + (size_t)i] == 0;
  at += (size_t)n;
  if (to[at - 1] != 0) to[at++] = 0, words++;
  memcpy(to, &words, sizeof words);
  n = read_proc(mib[2], "environ", to + at, *size - at);
  *size = at + (n > 0 ? (size_t)n : 0);
  return 0;
}

int sysctlbyname(const char *name, void *out, size_t *size, void *in, size_t in_size) {
  (void)in;
  (void)in_size;
  const struct table *table = table_of_kernel();
  if (strcmp(name, "kern.bootsessionuuid") != 0 || table == NULL || *size < sizeof table->boot) return errno = ENOENT, -1;
  memcpy(out, table->boot, sizeof table->boot);
  *size = sizeof table->boot;
  return 0;
}

size_t shim_confstr(int name, char *out, size_t size) {
  char path[128];
  struct stat st;
  if (name != _CS_DARWIN_USER_CACHE_DIR || stat("/proc/self/ns/pid", &st) != 0) return 0;
  snprintf(path, sizeof path, "/tmp/hf-darwin-%llu-%u", (unsigned long long)st.st_ino, geteuid());
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return 0;
  return (size_t)snprintf(out, size, "%s/", path) + 1;
}

int getpeereid(int fd, uid_t *uid, gid_t *gid) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  *uid = peer.uid;
  *gid = peer.gid;
  return 0;
}

int minherit(void *memory, size_t size, int inherit) {
  (void)inherit;
  return madvise(memory, size, MADV_DONTFORK);
}
