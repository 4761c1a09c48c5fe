/* macOS: a child in the lineage of its run, terminals, and what a launcher's children are. */
#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <mach/vm_inherit.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

#define DESCRIPTORS 4096
#define EVIDENCE_FROM 200 /* above those that a program uses, below the usual limit of 256 */

static int evidence = -1; /* only in a child */

void posix_close_above(int fd) {
  static struct proc_fdinfo descriptors[DESCRIPTORS];
  int size = proc_pidinfo(getpid(), PROC_PIDLISTFDS, 0, descriptors, sizeof descriptors);
  long count = size <= 0 ? 0 : size / (long)sizeof *descriptors;
  for (long i = 0; i < count; i++)
    if (descriptors[i].proc_fd > fd && descriptors[i].proc_fd != evidence) close(descriptors[i].proc_fd);
  if (count > 0 && count < DESCRIPTORS) return;
  for (int i = fd + 1; i < getdtablesize(); i++)
    if (i != evidence) close(i);
}

/* The child waits at the gate until the anchor knows its unique id. Signals are blocked meanwhile: the child still has
 * the handlers of the anchor. */
pid_t posix_fork_into(const struct boundary *boundary, bool *join) {
  sigset_t all, before;
  *join = false;
  errno = ENOTSUP;
  if (boundary->cgroup < 0) return -1; /* nothing would know its descendants */
  sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  if (pid == 0) return 0;
  int error = errno;
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  if (pid > 0 && !lineage_begin(boundary->cgroup, pid)) {
    error = errno;
    (void)kill(pid, SIGKILL); /* our child, not yet reaped */
    os_reap(pid);
    pid = -1;
  }
  errno = error;
  return pid;
}

const bool os_starts_warm = false;

/* The command inherits a descriptor of the file of its lineage, which shows where an orphan comes from. */
enum step posix_child_join(const struct boundary *boundary, bool join) {
  (void)join;
  int record = boundary->path[0] == 0 ? -1 : open(boundary->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (record >= 0) evidence = fcntl(record, F_DUPFD, EVIDENCE_FROM);
  return STEP_NONE;
}

static bool keep_from_exec(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; }

int posix_open_terminal(int *slave) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0) return -1;
  const char *name = grantpt(master) == 0 && unlockpt(master) == 0 ? ptsname(master) : NULL;
  *slave = name == NULL ? -1 : open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (*slave >= 0 && keep_from_exec(master) && posix_nonblocking(master)) return master;
  int error = errno;
  if (*slave >= 0) close(*slave);
  *slave = -1;
  close(master);
  errno = error;
  return -1;
}

void posix_keep_from_children(void *memory, size_t size) { (void)minherit(memory, size, VM_INHERIT_NONE); }

/* Tools show the program's file. */
void posix_set_name(const char *name) { (void)name; }
