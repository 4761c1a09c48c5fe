/* Finds the processes of a run. */
#include <errno.h>

#include "run/end/end.h"
#include "os/kill-tree.h"

#define REFRESH_MS 1000
#define ASK_FIRST_MS 2

static uint8_t marks[(4 << 20) / 8]; /* one bit for every possible pid */

static void mark(os_pid pid, bool on) {
  uint8_t bit = (uint8_t)(1u << (pid & 7));
  marks[(pid >> 3) % sizeof marks] = (uint8_t)(on ? marks[(pid >> 3) % sizeof marks] | bit : marks[(pid >> 3) % sizeof marks] & ~bit);
}

static bool marked(os_pid pid) { return (marks[(pid >> 3) % sizeof marks] >> (pid & 7) & 1) != 0; }

/* A hidden process that may be the known one counts as known: unknown is not gone. */
bool is_known(const struct run *run, os_pid pid) {
  struct member now;
  for (long i = 0; i < run->known_count; i++) {
    if (run->known[i].pid != pid) continue;
    if (!os_open(&run->known[i], &now)) return errno == EACCES;
    os_release(&now);
    return true;
  }
  return false;
}

bool is_only_run(const struct run *run) {
  for (struct run *other = runs; other < runs + RUNS_MAX; other++)
    if (other != run && (other->active || other->abandoned)) return false;
  return true;
}

/* True for a process of a run that was adopted out of this one, or of an abandoned run. */
static bool belongs_to_other_run(os_pid pid, const void *of) {
  const struct run *run = of;
  for (struct run *other = runs; other < runs + RUNS_MAX; other++) {
    if (!(other->active ? other->adopted : other->abandoned) || other == run) continue;
    if (other->boundary.cgroup >= 0 && os_boundary_holds(&other->boundary, pid)) return true;
    if (is_known(other, pid) && (run->boundary.cgroup < 0 || !os_boundary_holds(&run->boundary, pid))) return true;
  }
  return false;
}

static bool is_marked(os_pid pid, const void *unused) {
  (void)unused;
  return marked(pid);
}

static bool is_marked_or_of_other_run(os_pid pid, const void *run) { return marked(pid) || belongs_to_other_run(pid, run); }

/* Collects the members known from the last snapshot and their descendants, because the anchor has processes of other
 * runs below it. */
static long collect_known(struct run *run, long max, int signal) {
  long count = 0;
  for (long i = 0; i < run->known_count && count < max; i++) {
    if (marked(run->known[i].pid)) continue;
    if (!os_open(&run->known[i], &members[count])) {
      if (errno != EACCES) continue;
      /* A hidden process without a verified identity is counted. Without a handle it is never signalled. */
      members[count] = (struct member){.id = run->known[i], .handle = -1, .uid = OS_UID_UNKNOWN, .threads = 1, .state = STATE_HIDDEN};
    }
    if (tree_dead(&members[count]) || belongs_to_other_run(run->known[i].pid, run)) {
      os_release(&members[count]);
      continue;
    }
    if (signal != 0 && members[count].state != 'T') os_signal(&members[count], signal);
    mark(members[count++].id.pid, true);
  }
  for (long i = 0; i < count && count < max; i++) {
    long more = os_children(&members[i], members + count, max - count, is_marked_or_of_other_run, run, signal);
    for (long j = count; j < count + more; j++) mark(members[j].id.pid, true);
    count += more;
  }
  for (long i = 0; i < count; i++) mark(members[i].id.pid, false);
  return count;
}

void save_members(struct run *run, long count) {
  for (long i = 0; i < count; i++) run->known[i] = members[i].id;
  run->known_count = count;
}

/* Collects all processes in the boundary: descendants of the anchor, and other processes in the cgroup. */
long collect(struct run *run, int signal) {
  struct member me;
  os_self(&me);
  reap_zombies(); /* a fork bomb dies as fast as it forks: its zombies would use up all pids */
  bool others = runs_active() > 1; /* with one run left, every descendant belongs to it, except abandoned processes */
  long max = tree_max();
  long count = run->adopted && others ? collect_known(run, max, signal) : os_descendants(&me, members, max, is_only_run(run) ? NULL : belongs_to_other_run, run, signal);
  if (count < 0) count = 0;
  long known = count;
  for (long i = 0; i < known; i++) mark(members[i].id.pid, true);
  long more = os_boundary_members(&run->boundary, members + count, max - count, is_marked, NULL);
  if (more > 0) count += more;
  for (long i = known; signal != 0 && i < count; i++) os_signal(&members[i], signal);
  for (long i = 0; i < known; i++) mark(members[i].id.pid, false);
  if (run->adopted && count < max) save_members(run, count); /* a truncated list would lose members */
  if ((uint64_t)count > run->processes) run->processes = (uint64_t)count;
  return count;
}

/* ---- emptiness ---- */

enum emptiness tree_emptiness(struct run *run) {
  (void)os_lookup_failed();
  long count = collect(run, 0), left = os_lookup_failed();
  for (long i = 0; i < count; i++) left += !tree_dead(&members[i]);
  tree_release(count);
  return left == 0 ? os_boundary_emptiness(&run->boundary) : OCCUPIED;
}

bool may_ask_emptiness(const struct run *run) { return run->unseen_since == 0 || os_now_ms() >= run->ask_at; }

/* Treats the run as empty without a proof. A command that was not executed needs no proof: the child is still our own code,
 * which starts no process. */
static void give_up_proof(struct run *run) {
  os_boundary_doubt(run->doubt, sizeof run->doubt);
  run->unproven = run->started_at != 0;
  run->empty = true;
}

/* The pauses grow, because a process that cannot be examined has usually ended a moment later. */
static void ask_again_later(struct run *run) {
  uint64_t now = os_now_ms();
  if (run->unseen_since == 0) run->unseen_since = now;
  run->ask_at = now + (now - run->unseen_since) / 2 + ASK_FIRST_MS;
  if (now - run->unseen_since >= UNSEEN_LIMIT_MS) give_up_proof(run);
}

/* A proof stays valid: only a process that is moved in from outside can be found later. */
void take_emptiness(struct run *run, enum emptiness found) {
  switch (found) {
    case EMPTY:
    case OCCUPIED:
      run->empty = found == EMPTY;
      run->unproven = false;
      run->unseen_since = 0;
      break;
    case UNSEEN:
      if (run->leader_done && !run->empty) ask_again_later(run);
      break;
    case UNPROVEN:
      if (run->leader_done && !run->empty) give_up_proof(run);
      break;
  }
}

void check_emptiness(struct run *run, uint64_t now) {
  (void)now;
  if (is_only_run(run)) reap_zombies();
  else take_emptiness(run, tree_emptiness(run));
}

void refresh_members(struct run *run, uint64_t now) {
  struct member leader;
  run->refresh_at = now + REFRESH_MS;
  if (run->leader_handle < 0 && !run->leader_done) { /* no handles on this kernel: the exit of the leader must be polled */
    bool opened = os_open(&run->child.id, &leader), lives = opened ? !tree_dead(&leader) : errno == EACCES;
    run->leader_gone = !lives;
    if (opened) os_release(&leader);
    if (!lives) reap_children();
  }
  if (run->boundary.cgroup < 0 && !is_only_run(run)) tree_release(collect(run, 0));
}
