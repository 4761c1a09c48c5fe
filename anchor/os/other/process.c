/* Other POSIX systems: processes, of which only our own children are known. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/other/other.h"
#include "os/kill-tree.h"

#define CHILDREN 4096
#define POLL_MS 5 /* POSIX has no descriptor that reports the end of a process */

static pid_t self;
static uint64_t self_start;
static struct {
  pid_t pid;
  uint64_t start; /* when it was noted: a later child with the same pid has another one */
} children[CHILDREN];
static long count;

/* ---- children ---- */

static uint64_t next_start(void) {
  static uint64_t last;
  uint64_t now = os_wall_ms();
  last = now > last ? now : last + 1;
  return last;
}

static long place_of(pid_t pid) {
  for (long i = 0; i < count; i++)
    if (children[i].pid == pid) return i;
  return -1;
}

void add_child(pid_t pid) {
  if (place_of(pid) >= 0 || count == CHILDREN) return;
  children[count].pid = pid;
  children[count++].start = next_start();
}

long child_count(void) { return count; }

pid_t child_at(long place) { return children[place].pid; }

int child_state(pid_t pid) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return -1;
  return info.si_pid == 0;
}

int os_next_ended(struct os_ended *out) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD ? -1 : 0;
  if (info.si_pid == 0) return 0;
  const bool exited = info.si_code == CLD_EXITED;
  *out = (struct os_ended){.pid = info.si_pid, .code = exited ? info.si_status & 0xff : -1, .signal = exited ? 0 : info.si_status};
  return 1;
}

void os_reap(os_pid pid) {
  long place = place_of(pid);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
  if (place >= 0) children[place] = children[--count];
}

/* An anchor has forked only its leader. The leader stays a zombie until its group is empty, because that keeps the number of
 * the group. */
bool os_only_child(os_pid pid) { return place_of(pid) >= 0; }

long os_count_children(bool (*skip)(os_pid, const void *), const void *of) {
  long found = 0;
  for (long i = 0; i < count; i++) found += !skip(children[i].pid, of);
  return found;
}

long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of, int signal) {
  long found = 0;
  for (long i = 0; i < count && found < max && parent->id.pid == self; i++) {
    if ((skip != NULL && skip(children[i].pid, of)) || !os_read_process(children[i].pid, &out[found]) || tree_dead(&out[found])) continue;
    if (signal != 0) (void)os_signal(&out[found], signal);
    found++;
  }
  return found;
}

long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of, int signal) {
  return os_children(root, out, max, skip, of, signal);
}

/* ---- identities ---- */

bool os_each_process(void (*visit)(os_pid pid)) {
  (void)visit;
  return false;
}

bool os_lookup_failed(void) { return false; }

const char *os_strength(void) { return "number"; }

const char *const os_init_problem = "";

bool os_init(void) {
  self = getpid();
  self_start = next_start();
  count = 0;
  return true;
}

bool os_is_alive(const struct identity *wanted) {
  (void)wanted; /* os_read_process finds out */
  return false;
}

/* Reads this process and its children. Other processes are unknown: a pid alone does not identify a process. */
bool os_read_process(os_pid pid, struct member *out) {
  *out = (struct member){.handle = -1, .id = {.pid = pid}, .ppid = self, .uid = getuid(), .threads = 1, .state = 'R'};
  int state = pid == self ? 1 : child_state(pid);
  if (state < 0) {
    errno = kill(pid, 0) != 0 && errno == ESRCH ? ESRCH : EIO;
    return false;
  }
  if (pid == self) out->ppid = getppid();
  else add_child(pid); /* an anchor of this launcher */
  long place = place_of(pid);
  out->id.start = pid == self ? self_start : place < 0 ? 0 : children[place].start;
  if (state == 0) out->state = group_outlives(pid) ? STATE_HIDDEN : 'Z';
  pid_t group = getpgid(pid), session = getsid(pid);
  out->pgid = group < 0 ? 0 : group;
  out->sid = session < 0 ? 0 : session;
  return true;
}

bool os_refresh(struct member *member) {
  struct member now;
  if (!os_open(&member->id, &now)) return false;
  member->state = now.state;
  return true;
}

void os_release(struct member *member) { member->handle = -1; }

void os_self(struct member *out) { (void)os_read_process(self, out); }

int os_exit_descriptor(struct member *member) {
  (void)member;
  return -1;
}

bool os_wait_exit(const struct member *member, int timeout_ms) {
  uint64_t until = os_now_ms() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms);
  while (child_state(member->id.pid) == 1 && (timeout_ms < 0 || os_now_ms() < until)) os_poll(NULL, 0, POLL_MS);
  return child_state(member->id.pid) != 1;
}

long os_ancestors(const struct member *of, struct identity *out, long max) {
  (void)of;
  (void)out;
  (void)max;
  return 0;
}

/* ---- signals ---- */

bool os_untouchable(os_pid pid) { return pid <= 1 || pid == self || pid == getppid() || getpgid(pid) == getpgrp(); }

/* Signals only a child that is not yet reaped: any other pid may have been reused. */
int posix_signal(const struct member *member, int signal) {
  struct member now;
  if (os_untouchable(member->id.pid)) return EINVAL;
  if (child_state(member->id.pid) < 0) return EPERM;
  if (!os_open(&member->id, &now)) return errno;
  return group_signal(member->id.pid, signal);
}

void os_harden_self(void) { posix_keep_limits(); }

/* POSIX does not identify the peer. Only this user can reach the socket: its mode is 0600, in a directory with 0700. */
os_pid os_peer(int fd) {
  (void)fd;
  return 0;
}

bool os_peer_trusted(int fd) {
  (void)fd;
  return true;
}
