#include "tree.h"

#include <signal.h>
#include <sys/resource.h>

#define STOP_ROUNDS 32

struct member members[MEMBERS_MAX];

long tree_max(void) {
  struct rlimit limit;
  long most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (long)limit.rlim_cur - 128 : 256;
  return most < 64 ? 64 : most < MEMBERS_MAX ? most : MEMBERS_MAX;
}

void tree_release(long count) {
  for (long i = 0; i < count; i++) os_close(&members[i]);
}

bool tree_dead(const struct member *member) { return (member->state == 'Z' && member->threads <= 1) || member->state == 'X'; }

long stop_then_kill(long (*collect)(int)) {
  long count = 0, before = -1;
  for (int round = 0; round < STOP_ROUNDS && count > before; round++) { /* until nobody new has come */
    before = count;
    count = collect(SIGSTOP);
  }
  for (long i = 0; i < count; i++)
    if (!tree_dead(&members[i])) os_signal(&members[i], SIGKILL);
  return count;
}

static long (*fresh)(int);
static long held;

static long collect_afresh(int signal) {
  tree_release(held);
  return held = fresh(signal);
}

long tree_kill(long (*collect)(int)) {
  fresh = collect;
  held = 0;
  return stop_then_kill(collect_afresh);
}
