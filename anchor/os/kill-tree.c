#include "os/kill-tree.h"

#define STOP_ROUNDS 32
#define LIMIT_COUNTED 1024   /* up to this limit, free descriptors are counted */
#define DESCRIPTORS_OURS 256 /* above it: more than an anchor ever has open */
#define FILES_AT_ONCE 8      /* open for a moment during a lookup */

struct member members[MEMBERS_MAX];

long tree_room(long held) {
  long limit = os_descriptor_limit(), room = MEMBERS_MAX - held;
  long fit = limit > LIMIT_COUNTED ? limit - DESCRIPTORS_OURS - held : os_descriptors_free(limit) - FILES_AT_ONCE;
  if (fit < 1) fit = 1; /* a failure to open is noticed: os_lookup_failed */
  return fit < room ? fit : room;
}

long tree_max(void) { return tree_room(0); }

void tree_release(long count) {
  for (long i = 0; i < count; i++) os_release(&members[i]);
}

bool tree_dead(const struct member *member) { return (member->state == 'Z' && member->threads <= 1) || member->state == 'X'; }

long stop_then_kill(long (*collect)(void *, int), void *of) {
  long count = 0, before = -1;
  for (int round = 0; round < STOP_ROUNDS && count > before; round++) { /* until no new process appears */
    before = count;
    count = collect(of, OS_STOP);
  }
  for (long i = 0; i < count; i++)
    if (!tree_dead(&members[i])) os_signal(&members[i], OS_KILL);
  return count;
}

struct fresh {
  long (*collect)(void *, int);
  void *of;
  long held;
};

static long collect_afresh(void *of, int signal) {
  struct fresh *fresh = of;
  tree_release(fresh->held);
  return fresh->held = fresh->collect(fresh->of, signal);
}

long tree_kill(long (*collect)(void *, int), void *of) {
  struct fresh fresh = {.collect = collect, .of = of};
  return stop_then_kill(collect_afresh, &fresh);
}
