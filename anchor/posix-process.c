/* POSIX: this process, its clocks, and requests to others. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"
#include "tree.h"

#define PREFERRED (-10)

const char *const step_names[] = {"none", "directory", "boundary", "pty", "stdio", "fork", "session", "cwd", "exec", "spec", "limit"};

static uint64_t clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t os_now_ms(void) { return clock_ms(CLOCK_MONOTONIC); }

uint64_t os_wall_ms(void) { return clock_ms(CLOCK_REALTIME); }

char **os_arguments(int *argc, char **argv) {
  (void)argc;
  return argv;
}

os_pid os_own_pid(void) { return getpid(); }

os_pid os_parent(void) { return getppid(); }

bool os_is_foreign(const struct member *member) { return getuid() != 0 && member->uid != getuid(); }

/* ---- identities ---- */

bool os_same(const struct identity *one, const struct identity *other) {
  if (one->pid != other->pid) return false;
  if (one->unique != 0 && other->unique != 0) return one->unique == other->unique;
  return one->start != 0 && one->start == other->start; /* 0: it was hidden when it was read */
}

bool os_open(const struct identity *id, struct member *out) {
  if (!os_read_process(id->pid, out)) return false;
  if (os_same(id, &out->id)) return true;
  bool unsure = (out->id.start == 0 || id->start == 0) && (id->unique == 0 || out->id.unique == 0);
  os_release(out);
  errno = unsure ? EACCES : ESRCH;
  return false;
}

bool os_identity(pid_t pid, struct identity *out) {
  struct member member;
  if (!os_read_process(pid, &member)) return false;
  *out = member.id;
  os_release(&member);
  return true;
}

/* ---- signals ---- */

static int number_of(int signal) {
  switch (signal) {
    case OS_KILL: return SIGKILL;
    case OS_TERM: return SIGTERM;
    case OS_CONT: return SIGCONT;
    case OS_STOP: return SIGSTOP;
    default: return 0;
  }
}

int os_signal_of(uint64_t number) {
  switch (number) {
    case SIGKILL: return OS_KILL;
    case SIGTERM: return OS_TERM;
    case SIGCONT: return OS_CONT;
    case SIGSTOP: return OS_STOP;
    default: return 0;
  }
}

int os_signal(const struct member *member, int signal) {
  int number = number_of(signal);
  return number == 0 ? ENOTSUP : posix_signal(member, number);
}

/* TERM to a stopped process stays pending. */
long os_request_end(const struct member *list, long count) {
  long asked = 0;
  for (long i = 0; i < count; i++) {
    if (tree_dead(&list[i]) || os_signal(&list[i], OS_TERM) != 0) continue;
    os_signal(&list[i], OS_CONT);
    asked++;
  }
  return asked;
}

/* ---- limits and priority of this process ---- */

static struct {
  bool known;
  struct rlimit files;
  int priority;
} callers;

void posix_keep_limits(void) {
  callers.priority = getpriority(PRIO_PROCESS, 0);
  callers.known = getrlimit(RLIMIT_NOFILE, &callers.files) == 0;
  if (!callers.known) return;
  struct rlimit most = {.rlim_cur = callers.files.rlim_max, .rlim_max = callers.files.rlim_max};
  (void)setrlimit(RLIMIT_NOFILE, &most); /* a handle for every member of a large tree */
}

void os_raise_priority(bool on) {
  if (on || callers.known) (void)setpriority(PRIO_PROCESS, 0, on ? PREFERRED : callers.priority);
}

void posix_restore_limits(void) {
  if (callers.known) (void)setrlimit(RLIMIT_NOFILE, &callers.files);
  os_raise_priority(false);
}
