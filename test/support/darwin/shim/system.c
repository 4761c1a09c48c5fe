/* sysctl(3) and the rest of what macOS has and Linux has not. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "shim.h"

/* Discards the output of a terminal that was not read: macOS does so with the last descriptor of the slave. */
static void discard_unread(int slave) {
  struct stat st;
  unsigned number;
  if (!isatty(slave) || ioctl(slave, TIOCGPTN, &number) == 0 || fstat(slave, &st) != 0) return;
  (void)tcflush(slave, TCOFLUSH);
  for (int fd = 0; fd < 1024; fd++)
    if (ioctl(fd, TIOCGPTN, &number) == 0 && number == minor(st.st_rdev)) (void)tcflush(fd, TCIFLUSH);
}

#undef close
int shim_close(int fd) {
  discard_unread(fd);
  return close(fd);
}

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

/* macOS tells nothing, not even a hang-up, of a descriptor of which nothing is wanted. */
#undef poll
int shim_poll(struct pollfd *set, nfds_t count, int timeout) {
  enum { MOST = 1024 };
  struct pollfd wanted[MOST];
  if (count > MOST) return errno = EINVAL, -1;
  for (nfds_t i = 0; i < count; i++) {
    wanted[i] = set[i];
    if ((set[i].events & (POLLIN | POLLPRI | POLLOUT | POLLHUP)) == 0) wanted[i].fd = -1;
  }
  int ready = poll(wanted, count, timeout);
  for (nfds_t i = 0; i < count; i++) set[i].revents = wanted[i].revents;
  return ready;
}

/* That of macOS also returns children that have stopped, and does not tell the signal that ended a child. */
#undef waitid
int shim_waitid(idtype_t type, id_t id, siginfo_t *out, int options) {
  int result = waitid(type, id, out, (options & WEXITED) != 0 ? options | WSTOPPED : options);
  if (result == 0 && out->si_pid != 0 && (out->si_code == CLD_KILLED || out->si_code == CLD_DUMPED)) out->si_status = 0;
  return result;
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
