/* POSIX: creates a child that has done everything except exec, behind a gate. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "os/posix/posix.h"

const char *const step_names[] = {"none", "directory", "boundary", "pty", "stdio", "fork", "session", "cwd", "exec", "spec", "limit"};

extern char **environ;

static void report(int fd, enum step step, int error) {
  struct child_report report = {.step = (int)step, .error = error};
  (void)!write(fd, &report, sizeof report);
}

static _Noreturn void fail(int fd, enum step step) {
  report(fd, step, errno);
  _exit(127);
}

/* Moves a descriptor of ours to its place, closed on exec. */
static bool move_to(int fd, int place) { return dup2(fd, place) == place && fcntl(place, F_SETFD, FD_CLOEXEC) == 0; }

/* The last steps of the child before exec. A warm anchor's child takes them when its command is known. */
static void prepare_command(const struct child_spec *spec, int status) {
  int null = spec->late && spec->stdin_null ? open("/dev/null", O_RDONLY | O_CLOEXEC) : 0;
  if (null < 0 || (null > 0 && dup2(null, 0) < 0)) fail(status, STEP_STDIO);
  if (null > 0) close(null);
  if (spec->late && spec->merge && dup2(1, 2) < 0) fail(status, STEP_STDIO);
  if (spec->cwd[0] != 0 && chdir(spec->cwd) != 0) fail(status, STEP_CWD);
  if (spec->set_umask) umask((mode_t)spec->umask);
  posix_restore_limits(); /* last, because the caller's limit may have no room for the descriptors above */
}

/* Descriptors that a command has room for when it starts, as many as a child of bash. */
#define DESCRIPTORS 256

/* Linux enlarges the table of a process with threads only after an RCU grace period: every open of Node's threads waited
   for 10 ms at the 65th descriptor, and again at the 129th. A process without threads does not wait, and exec keeps the
   size of the table. */
static void make_room_for_descriptors(int any) {
  int last = fcntl(any, F_DUPFD_CLOEXEC, DESCRIPTORS - 1);
  if (last >= 0) close(last);
}

static _Noreturn void child_main(const struct child_spec *spec, int gate, int status, const int io[3], const struct boundary *boundary, bool join) {
  posix_default_signals();
  enum step step = posix_child_join(boundary, join);
  if (step != STEP_NONE) fail(status, step);
  if (setsid() < 0) fail(status, STEP_SESSION);
  if (spec->pty && ioctl(io[0], TIOCSCTTY, 0) != 0) fail(status, STEP_PTY);
  make_room_for_descriptors(status);
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
  if (!move_to(gate, 3) || !move_to(status, 4)) fail(status, STEP_STDIO);
  gate = 3;
  status = 4;
  posix_close_above(4);
  bool late = spec->late;
  if (!late) prepare_command(spec, status);
  report(status, STEP_NONE, 0);
  char go;
  if (os_read(gate, &go, 1) != 1) _exit(127); /* no owner sent GO: no instruction of the command has run */
  if (late) prepare_command(spec, status);
  posix_unblock_signals();
  environ = (char **)spec->env;
  execvp(spec->argv[0], spec->argv);
  fail(status, STEP_EXEC);
}

static bool set_size(int terminal, uint16_t rows, uint16_t cols) {
  struct winsize size = {.ws_row = rows, .ws_col = cols};
  return ioctl(terminal, TIOCSWINSZ, &size) == 0;
}

static void close_all(const int *fds, size_t count) {
  int error = errno;
  for (size_t i = 0; i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
  errno = error;
}

enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out) {
  int gate[2] = {-1, -1}, status[2] = {-1, -1}, in[2] = {-1, -1}, po[2] = {-1, -1}, pe[2] = {-1, -1}, io[3];
  enum step step = STEP_STDIO;
  *out = (struct child){.gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  if (!posix_pipe(gate) || !posix_pipe(status) || !posix_nonblocking(status[0])) goto failed;
  if (spec->pty) {
    step = STEP_PTY;
    if ((out->out = posix_open_terminal(&out->slave)) < 0 || !set_size(out->out, spec->rows, spec->cols)) goto failed;
    out->in = out->out;
    io[0] = io[1] = io[2] = out->slave;
  } else {
    if (spec->stdin_null ? (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 : !posix_pipe(in)) goto failed;
    if (!posix_pipe(po) || (!spec->merge && !posix_pipe(pe))) goto failed;
    io[0] = in[0];
    io[1] = po[1];
    io[2] = spec->merge ? po[1] : pe[1];
    int ours[3] = {in[1], po[0], pe[0]};
    for (int i = 0; i < 3; i++)
      if (ours[i] >= 0 && !posix_nonblocking(ours[i])) goto failed;
  }
  step = STEP_FORK;
  bool join;
  pid_t pid = posix_fork_into(boundary, &join);
  if (pid < 0) goto failed;
  if (pid == 0) {
    close(gate[1]); /* otherwise the child would hold its own gate open */
    child_main(spec, gate[0], status[1], io, boundary, join);
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
  close_all((const int[]){gate[0], gate[1], status[0], status[1], in[0], in[1], po[0], po[1], pe[0], pe[1], out->slave, out->out}, 12);
  return step;
}

void os_gate_discard(struct child *child) {
  if (child->gate >= 0) close(child->gate);
  child->gate = -1;
}

void os_gate_open(struct child *child) {
  (void)!write(child->gate, "g", 1);
  os_gate_discard(child);
}

int os_child_report(struct child *child, struct child_report *out) {
  struct child_report report;
  long n = os_read(child->status, &report, sizeof report);
  if (n < 0) return 0;
  if (n != (long)sizeof report) return -1;
  *out = report;
  return 1;
}

void os_kill_gated_child(struct child *child) {
  struct member member;
  if (os_read_process(child->id.pid, &member)) { /* our child, not yet reaped: it may hang before it reaches the gate */
    os_signal(&member, OS_KILL);
    os_release(&member);
  }
  close_all((const int[]){child->gate, child->status, child->in, child->err, child->slave, child->out == child->in ? -1 : child->out}, 6);
  os_reap(child->id.pid);
}

/* The kernel sends SIGWINCH itself. */
void os_terminal_resize(const struct child *child, uint16_t rows, uint16_t cols) { (void)set_size(child->in, rows, cols); }

/* The end of input is a character; after an unfinished line it takes two. */
bool os_terminal_end_input(const struct child *child, bool line_open) {
  struct termios t;
  if (tcgetattr(child->in, &t) != 0) return true;
  uint8_t eof[2] = {t.c_cc[VEOF], t.c_cc[VEOF]};
  bool by_line = (t.c_lflag & ICANON) != 0; /* otherwise it is an ordinary key, which line editors understand */
  size_t count = by_line && line_open ? 2 : 1;
  long n = os_write(child->in, eof, count);
  return n == (long)count || (n < 0 && errno != EAGAIN);
}
