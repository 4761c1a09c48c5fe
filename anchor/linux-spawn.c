/* Linux: creates a child that has done everything except exec, behind a gate. */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linux.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static int open_pty(const struct child_spec *spec, int *slave) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return -1;
  int unlock = 0;
  struct winsize size = {.ws_row = spec->rows, .ws_col = spec->cols};
  if (ioctl(master, TIOCSPTLCK, &unlock) == 0 && ioctl(master, TIOCSWINSZ, &size) == 0) {
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0) return master;
  }
  int error = errno;
  close(master);
  errno = error;
  return -1;
}

static void report(int fd, enum step step, int error) {
  struct child_report report = {.step = (int)step, .error = error};
  (void)!write(fd, &report, sizeof report);
}

static _Noreturn void fail(int fd, enum step step) {
  report(fd, step, errno);
  _exit(127);
}

static _Noreturn void child_main(const struct child_spec *spec, int gate, int status, const int io[3], int join_cgroup) {
  os_default_signals();
  if (join_cgroup >= 0 && !write_at(join_cgroup, "cgroup.procs", "0")) fail(status, STEP_BOUNDARY);
  if (!limits_join()) fail(status, STEP_LIMIT);
  if (setsid() < 0) fail(status, STEP_SESSION);
  if (spec->pty && ioctl(io[0], TIOCSCTTY, 0) != 0) fail(status, STEP_PTY);
  /* Moves our descriptors above the standard ones first, so that no dup2 closes one that is still needed. */
  int gate_above = fcntl(gate, F_DUPFD_CLOEXEC, 10), status_above = fcntl(status, F_DUPFD_CLOEXEC, 10);
  if (gate_above < 0 || status_above < 0) fail(status, STEP_STDIO);
  gate = gate_above;
  status = status_above;
  int up[3];
  for (int i = 0; i < 3; i++)
    if ((up[i] = fcntl(io[i], F_DUPFD_CLOEXEC, 10)) < 0) fail(status, STEP_STDIO);
  for (int i = 0; i < 3; i++)
    if (dup2(up[i], i) < 0) fail(status, STEP_STDIO);
  /* Nothing else stays open while the child waits, so that the peer of a connection sees its end. */
  if (dup3(gate, 3, O_CLOEXEC) < 0 || dup3(status, 4, O_CLOEXEC) < 0) fail(status, STEP_STDIO);
  gate = 3;
  status = 4;
  os_close_above(4);
  if (spec->cwd[0] != 0 && chdir(spec->cwd) != 0) fail(status, STEP_CWD);
  if (spec->set_umask) umask(spec->umask);
  write_at(AT_FDCWD, "/proc/self/oom_score_adj", "100"); /* the OOM killer prefers it to the anchor */
  restore_inherited_limits(); /* last, because the caller's limit may have no room for the descriptors above */
  report(status, STEP_NONE, 0);
  char go;
  ssize_t n;
  while ((n = read(gate, &go, 1)) < 0 && errno == EINTR) continue;
  if (n != 1) _exit(127); /* no owner sent GO: no instruction of the command has run */
  os_unblock_signals();
  environ = (char **)spec->env;
  execvp(spec->argv[0], spec->argv);
  fail(status, STEP_EXEC);
}

/* Starts the child inside the cgroup if the kernel can (writing cgroup.procs costs an RCU grace period); otherwise
 * the child joins it before the gate. */
static pid_t fork_into(const struct boundary *boundary, int *join_cgroup) {
  *join_cgroup = -1;
  if (boundary->cgroup >= 0) {
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)boundary->cgroup};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0) return pid;
    *join_cgroup = boundary->cgroup;
  }
  return fork();
}

enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out) {
  int gate[2] = {-1, -1}, status[2] = {-1, -1}, in[2] = {-1, -1}, po[2] = {-1, -1}, pe[2] = {-1, -1}, io[3];
  enum step step = STEP_STDIO;
  *out = (struct child){.gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  int error = 0;
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(status, O_CLOEXEC) != 0) goto failed;
  if (fcntl(status[0], F_SETFL, O_NONBLOCK) != 0) goto failed;
  if (spec->pty) {
    step = STEP_PTY;
    if ((out->out = open_pty(spec, &out->slave)) < 0) goto failed;
    out->in = out->out;
    io[0] = io[1] = io[2] = out->slave;
  } else {
    if (spec->stdin_null ? (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 : pipe2(in, O_CLOEXEC) != 0) goto failed;
    if (pipe2(po, O_CLOEXEC) != 0 || (!spec->merge && pipe2(pe, O_CLOEXEC) != 0)) goto failed;
    io[0] = in[0];
    io[1] = po[1];
    io[2] = spec->merge ? po[1] : pe[1];
    int ours[3] = {in[1], po[0], pe[0]};
    for (int i = 0; i < 3; i++)
      if (ours[i] >= 0 && fcntl(ours[i], F_SETFL, O_NONBLOCK) != 0) goto failed;
  }
  step = STEP_FORK;
  int join_cgroup;
  pid_t pid = fork_into(boundary, &join_cgroup);
  if (pid < 0) goto failed;
  if (pid == 0) {
    close(gate[1]); /* otherwise the child would hold its own gate open */
    child_main(spec, gate[0], status[1], io, join_cgroup);
  }
  close(gate[0]);
  close(status[1]);
  if (!spec->pty) {
    for (int i = 0; i < 3; i++)
      if (i < 2 || !spec->merge) close(io[i]);
    out->in = in[1];
    out->out = po[0];
    out->err = pe[0];
  }
  out->gate = gate[1];
  out->status = status[0];
  out->id.pid = pid;
  return STEP_NONE;

failed:
  error = errno;
  int all[12] = {gate[0], gate[1], status[0], status[1], in[0], in[1], po[0], po[1], pe[0], pe[1], out->slave, spec->pty ? out->out : -1};
  for (int i = 0; i < 12; i++)
    if (all[i] >= 0) close(all[i]);
  errno = error;
  return step;
}

void os_kill_gated_child(struct child *child) {
  struct member member;
  if (os_read_process(child->id.pid, &member)) { /* our child, not yet reaped: it may hang before it reaches the gate */
    os_signal(&member, SIGKILL);
    os_close(&member);
  }
  int ends[5] = {child->gate, child->status, child->in, child->err, child->slave};
  for (int i = 0; i < 5; i++)
    if (ends[i] >= 0) close(ends[i]);
  if (child->out >= 0 && child->out != child->in) close(child->out);
  (void)waitpid(child->id.pid, NULL, __WALL);
}
