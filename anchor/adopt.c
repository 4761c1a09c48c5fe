/*
 * A process of this run, with all below it, becomes a run of its own: re-labelled, not re-parented. Its anchor stays the
 * same, and from then on serves both.
 *
 * With cgroups the tree is frozen, moved and thawed: nobody is born on the way, and from then on the cgroups tell whose
 * everybody is. Without, ancestry tells, as of the last look: see `collect`.
 */
#include "run.h"
#include "tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FREEZE_MS 2000
#define MOVE_ROUNDS 64
#define CHECK_EVERY_MS 5000

static struct served *free_slot(void) {
  for (int i = 0; i < RUNS_MAX; i++)
    if (!runs[i].active) return &runs[i];
  return NULL;
}

/* Opened, and proven to be one of this run's; errno is ESRCH when it is none. */
static bool open_member(const struct identity *wanted, struct member *out) {
  long count = collect(0);
  bool found = false;
  for (long i = 0; i < count; i++)
    if (members[i].id.pid == wanted->pid && members[i].id.start == wanted->start && !tree_dead(&members[i])) found = true;
  tree_release(count);
  errno = ESRCH;
  return found && os_open(wanted, out);
}

/* The process and everybody below it, in `members`; 0 when it has ended. Its own handle stays open. */
static long collect_below(const struct member *root) {
  members[0] = *root;
  members[0].handle = -1; /* not to be closed with the others */
  struct member look = *root;
  if (!os_refresh(&look) || tree_dead(&look)) return 0;
  long count = os_descendants(root, members + 1, tree_max() - 1, NULL, 0);
  return count < 0 ? 0 : 1 + count;
}

/* Until a look finds nobody who is not there yet. Who had left the run's cgroup before stays where he is. */
static bool move_all(const struct boundary *from, const struct boundary *to, const struct member *root) {
  for (int round = 0; round < MOVE_ROUNDS; round++) {
    long count = collect_below(root), moved = 0;
    int error = count == 0 ? ESRCH : 0;
    for (long i = 0; i < count && error == 0; i++) {
      if (!os_boundary_holds(from, members[i].id.pid)) continue;
      moved++;
      if (!os_boundary_take(to, members[i].id.pid) && errno != ESRCH) error = errno;
    }
    tree_release(count);
    if (error == 0 && moved == 0) return true;
    errno = error;
    if (error != 0) return false;
  }
  errno = EAGAIN;
  return false;
}

static void move_back(const struct boundary *from, const struct boundary *to) {
  long count = os_boundary_members(to, members, tree_max());
  for (long i = 0; i < count; i++) (void)os_boundary_take(from, members[i].id.pid);
  tree_release(count);
}

/* Both are frozen: who has been moved must not end, and leave us with children of his that have not. */
static bool move(const struct boundary *from, const struct boundary *to, const struct member *root) {
  bool done = os_boundary_freeze(from, FREEZE_MS) && os_boundary_freeze(to, FREEZE_MS) && move_all(from, to, root);
  int error = errno;
  if (!done) move_back(from, to);
  os_boundary_thaw(to);
  os_boundary_thaw(from);
  errno = error;
  return done;
}

static void know(const struct member *root) {
  run.known = reserve(KNOWN_SIZE);
  run.known[0] = root->id;
  run.known_count = 1;
  /* Twice the same: nobody was between two parents. */
  for (long before = -1, round = 0; run.known_count != before && round < MOVE_ROUNDS; round++) {
    before = run.known_count;
    tree_release(collect(0));
  }
}

static uint64_t milliseconds(const struct frame *frame, uint8_t tag, uint64_t otherwise) {
  uint64_t n = otherwise;
  frame_number(frame, tag, &n);
  return n;
}

/* A run that has no output and no input of its own, and needs no owner. */
static void describe(const struct served *parent, const struct frame *frame, const struct member *root) {
  uint64_t now = os_now_ms();
  memcpy(run.instance, parent->instance, sizeof run.instance);
  run.launcher = parent->launcher;
  run.anchor = parent->anchor;
  run.policy = parent->policy;
  run.policy.service = run.policy.sweep_escapes = true;
  run.policy.overall = run.policy.no_output = 0;
  run.policy.grace = milliseconds(frame, T_GRACE_MS, parent->policy.grace);
  run.adopted = run.executed = run.gate_used = run.ready = true;
  run.phase = RUNNING;
  run.child = (struct child){.id = root->id, .gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  run.input = (struct input){.fd = -1, .closed = true};
  run.session = root->sid;
  run.leader_handle = root->handle;
  run.started_at = run.overall_from = run.output_at = run.owner_lost_at = now;
  run.check_at = now + CHECK_EVERY_MS;
}

/* False and errno: nothing has changed. */
static bool adopt(struct served *parent, struct served *slot, const struct frame *frame, const struct member *root) {
  begin_serving(slot);
  bool ok = frame_text(frame, T_RUN_ID, run.id, sizeof run.id) && frame_text(frame, T_KEY, run.key, sizeof run.key) && strlen(run.key) >= 32 &&
            strchr(run.id, '/') == NULL && run.id[0] != '.' && run.id[0] != 0;
  errno = EINVAL;
  if (!ok) return false;
  describe(parent, frame, root);
  bool bounded = parent->boundary.cgroup >= 0;
  if (bounded) os_boundary_open(&run.boundary, cgroups_of_runs, run.id, "");
  else memcpy(run.boundary.note, parent->boundary.note, sizeof run.boundary.note);
  if (bounded && run.boundary.cgroup < 0) return false;
  if (!open_directory(parent->instance_directory)) {
    int error = errno;
    if (error != EEXIST) remove_directory();
    errno = error;
    return false;
  }
  streams_open(frame);
  if (!save_facts() || (bounded && !move(&parent->boundary, &run.boundary, root))) {
    remove_directory();
    return false;
  }
  know(root);
  run.boundary_events = os_boundary_events(&run.boundary);
  return true;
}

static void undo(void) {
  int error = errno;
  os_boundary_remove(&run.boundary);
  if (run.dir >= 0) close(run.dir);
  if (run.listener >= 0) close(run.listener);
  run.active = false;
  errno = error;
}

void adopt_asked(struct connection *connection, const struct frame *frame) {
  struct served *parent = serving, *slot = free_slot();
  uint64_t pid = 0;
  struct identity wanted = {0};
  struct member root;
  frame_number(frame, T_ROOT_PID, &pid);
  wanted.pid = (pid_t)pid;
  frame_number(frame, T_ROOT_START, &wanted.start);
  frame_number(frame, T_ROOT_UNIQUE, &wanted.unique);
  if (run.phase != RUNNING || run.stop.set || run.leader_done) {
    refuse(connection, "adopt-phase", "the run is not running, or is about to end");
    return;
  }
  if (run.boundary.cgroup < 0 && strcmp(os_strength(), "number") == 0) {
    refuse(connection, "adopt-weak", "with neither cgroups nor process handles it could not be stopped apart from its run");
    return;
  }
  if (slot == NULL) {
    refuse(connection, "adopt-many", "this anchor serves as many runs as it can");
    return;
  }
  if (wanted.pid == run.child.id.pid || !open_member(&wanted, &root)) {
    refuse(connection, "adopt-member", "it is no process of this run, or its first one");
    return;
  }
  if (!adopt(parent, slot, frame, &root)) {
    undo();
    int error = errno;
    os_close(&root);
    serving = parent;
    refuse(connection, "adopt-failed", strerror(error));
    return;
  }
  char id[sizeof run.id];
  memcpy(id, run.id, sizeof id);
  serving = parent;
  struct out out = connection_out(connection, F_ADOPTED);
  out_text(&out, T_RUN_ID, id);
  connection_send(connection, &out);
}
