/* Linux: a child in the boundary of its run, terminals, and what a launcher's children are. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/linux.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

void posix_close_above(int fd) {
  if (syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0) == 0) return;
  for (int i = fd + 1; i < 65536; i++) close(i); /* before Linux 5.9 */
}

/* Starts the child inside the cgroup if the kernel can (writing cgroup.procs costs an RCU grace period); otherwise
 * the child joins it before the gate. */
pid_t posix_fork_into(const struct boundary *boundary, bool *join) {
  *join = false;
  if (boundary->cgroup >= 0) {
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)boundary->cgroup};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0) return pid;
    *join = true;
  }
  return fork();
}

const bool os_starts_warm = true;

enum step posix_child_join(const struct boundary *boundary, bool join) {
  if (join && !write_at(boundary->cgroup, "cgroup.procs", "0")) return STEP_BOUNDARY;
  if (!limits_join()) return STEP_LIMIT;
  write_at(AT_FDCWD, "/proc/self/oom_score_adj", "100"); /* the OOM killer prefers it to the anchor */
  return STEP_NONE;
}

int posix_open_terminal(int *slave) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), unlock = 0;
  if (master < 0) return -1;
  if (ioctl(master, TIOCSPTLCK, &unlock) == 0) {
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0) return master;
  }
  int error = errno;
  close(master);
  errno = error;
  return -1;
}

void posix_keep_from_children(void *memory, size_t size) { (void)madvise(memory, size, MADV_DONTFORK); }

void posix_set_name(const char *name) { prctl(PR_SET_NAME, name); }
