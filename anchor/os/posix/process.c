/* POSIX: identities of processes, and the signals that they are sent. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "os/kill-tree.h"

bool os_is_foreign(const struct member *member) { return getuid() != 0 && member->uid != getuid(); }

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
