/* Other POSIX systems: a child with its end of the pipe of the run, and terminals. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/other/other.h"

#define DESCRIPTORS 65536
#define PIPE_FROM 200 /* above those that a program uses, below the usual limit of 256 */

static int child_end = -1; /* only in a child */

void posix_close_above(int fd) {
  long limit = sysconf(_SC_OPEN_MAX);
  if (limit < 0 || limit > DESCRIPTORS) limit = DESCRIPTORS;
  for (int i = fd + 1; i < limit; i++)
    if (i != child_end) close(i);
}

/* Signals are blocked meanwhile: the child still has the handlers of the anchor. */
pid_t posix_fork_into(const struct boundary *boundary, bool *join) {
  sigset_t all, before;
  (void)boundary;
  *join = false;
  int end = group_prepare();
  if (end < 0) return -1;
  sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  int error = errno;
  if (pid == 0) {
    child_end = end;
    return 0;
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  close(end);
  if (pid > 0) group_begin(pid);
  errno = error;
  return pid;
}

const bool os_starts_warm = false;

enum step posix_child_join(const struct boundary *boundary, bool join) {
  (void)boundary;
  (void)join;
  child_end = fcntl(child_end, F_DUPFD, PIPE_FROM);
  return child_end < 0 ? STEP_BOUNDARY : STEP_NONE;
}

int posix_open_terminal(int *slave) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0) return -1;
  const char *name = grantpt(master) == 0 && unlockpt(master) == 0 ? ptsname(master) : NULL;
  *slave = name == NULL ? -1 : open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (*slave >= 0 && fcntl(master, F_SETFD, FD_CLOEXEC) == 0 && posix_nonblocking(master)) return master;
  int error = errno;
  if (*slave >= 0) close(*slave);
  *slave = -1;
  close(master);
  errno = error;
  return -1;
}

/* Other anchors of the launcher inherit it, and do not read it. */
void posix_keep_from_children(void *memory, size_t size) {
  (void)memory;
  (void)size;
}

void posix_set_name(const char *name) { (void)name; }
