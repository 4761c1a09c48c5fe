/* ADOPT: a process of this run and its descendants become a run of their own. Their parents do not change. The
 * anchor stays the same and serves both runs.
 *
 * With cgroups the tree is frozen, moved and thawed, so that no process is forked meanwhile, and the cgroups then
 * show which run a process belongs to. Without cgroups the ancestry at the last snapshot shows it: see `collect`. */
#include "commands/commands.h"
#include "run/end/end.h"
#include "os/kill-tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FREEZE_MS 2000
#define MOVE_ROUNDS 64
#define CHECK_EVERY_MS 5000
/* Directory, socket, cgroup, cgroup events, handle of the leader, owner connection, one connection for STOP. */
#define DESCRIPTORS_OF_A_RUN 7

/* The content of ADOPT, copied, because collecting members may drop the connection that holds the frame. */
struct request {
  char id[sizeof((struct run *)0)->id], key[sizeof((struct run *)0)->key];
  char scope[SCOPE_SIZE];
  bool complete;
  uint64_t grace;
  struct identity root;
};

static const char zombie_leader_msg[] = "the first thread of one of its processes has ended: the kernel does not move such a process to another cgroup";

static const char no_move_msg[] = "this system moves no process out of the boundary of its run";

static struct run *free_slot(void) {
  for (int i = 0; i < RUNS_MAX; i++)
    if (!runs[i].active && !runs[i].abandoned) return &runs[i];
  return NULL;
}

/* Opens a member of this run. errno is ESRCH if the process is not a member, EMFILE if not all members could be
 * checked. */
static bool open_member(struct run *run, const struct identity *wanted, struct member *out) {
  long most = tree_max(), count = collect(run, 0);
  bool found = false;
  for (long i = 0; i < count; i++)
    if (os_same(&members[i].id, wanted) && !tree_dead(&members[i])) found = true;
  tree_release(count);
  errno = !found && count >= most ? EMFILE : ESRCH;
  return found && os_open(wanted, out);
}

/* Fills `members` with the process and its descendants. 0: the process has ended; -1: too many. Its own handle stays
 * open. */
static long collect_below(const struct member *root) {
  members[0] = *root;
  if (!os_refresh(&members[0]) || tree_dead(&members[0])) return 0;
  members[0].handle = -1; /* not closed with the others */
  (void)os_lookup_failed();
  long most = tree_room(1), count = os_descendants(root, members + 1, most, NULL, NULL, 0);
  if (count < most && !os_lookup_failed()) return count < 0 ? 0 : 1 + count;
  tree_release(1 + count);
  return -1;
}

/* EOWNERDEAD: its first thread has ended and would stay in the old cgroup, where the whole process is counted. */
static int why_not(const struct boundary *from, long count) {
  if (count == 0) return ESRCH;
  if (count < 0) return EMFILE;
  for (long i = 0; i < count; i++)
    if (members[i].state == 'Z' && !tree_dead(&members[i]) && os_boundary_holds(from, members[i].id.pid)) return EOWNERDEAD;
  return 0;
}

/* Repeats until no process is left to move. A process that had left the run's cgroup before stays where it is. */
static bool move_all(const struct boundary *from, const struct boundary *to, const struct member *root) {
  for (int round = 0; round < MOVE_ROUNDS; round++) {
    long count = collect_below(root), moved = 0;
    int error = why_not(from, count);
    for (long i = 0; i < count && error == 0; i++) {
      if (!os_boundary_holds(from, members[i].id.pid)) continue;
      moved++;
      if (!os_boundary_move(to, members[i].id.pid) && errno != ESRCH) error = errno;
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
  long count = os_boundary_members(to, members, tree_max(), NULL, NULL);
  for (long i = 0; i < count; i++) (void)os_boundary_move(from, members[i].id.pid);
  tree_release(count);
}

/* Both are frozen: a moved process must not exit and leave children that were not moved. */
static bool move(const struct boundary *from, const struct boundary *to, const struct member *root) {
  bool done = os_boundary_freeze(from, FREEZE_MS) && os_boundary_freeze(to, FREEZE_MS) && move_all(from, to, root);
  int error = errno;
  if (!done) move_back(from, to);
  os_boundary_thaw(to);
  os_boundary_thaw(from);
  errno = error;
  return done;
}

static void snapshot_members(struct run *run, const struct member *root) {
  run->known[0] = root->id;
  run->known_count = 1;
  /* Two equal counts: no process was between two parents. */
  for (long before = -1, round = 0; run->known_count != before && round < MOVE_ROUNDS; round++) {
    before = run->known_count;
    tree_release(collect(run, 0));
  }
}

/* Initializes a run without output and input that needs no owner. */
static void describe(struct run *run, const struct run *parent, const struct request *request, const struct member *root) {
  uint64_t now = os_now_ms();
  memcpy(run->instance, parent->instance, sizeof run->instance);
  run->launcher = parent->launcher;
  run->anchor = parent->anchor;
  run->policy = parent->policy;
  run->policy.service = run->policy.sweep_escapes = true;
  run->policy.overall = run->policy.no_output = 0;
  run->policy.grace = request->grace;
  run->adopted = true;
  run->phase = RUNNING;
  run->child = (struct child){.id = root->id, .gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  run->session = root->sid;
  run->leader_handle = -1;
  run->go_at = run->started_at = run->overall_from = run->output_at = run->owner_lost_at = now;
  run->check_at = now + CHECK_EVERY_MS;
}

/* False and errno: nothing has changed. */
static bool adopt(struct run *run, const struct run *parent, const struct request *request, const struct member *root) {
  init_run(run);
  errno = EINVAL;
  if (!request->complete) return false;
  if ((run->known = os_map(KNOWN_SIZE)) == NULL) return false;
  memcpy(run->id, request->id, sizeof run->id);
  memcpy(run->key, request->key, sizeof run->key);
  memcpy(run->scope, request->scope, sizeof run->scope);
  describe(run, parent, request, root);
  bool bounded = parent->boundary.cgroup >= 0;
  if (bounded) os_boundary_open(&run->boundary, cgroups_of_runs, run->id, "");
  else memcpy(run->boundary.note, parent->boundary.note, sizeof run->boundary.note);
  if (bounded && run->boundary.cgroup < 0) return false;
  if (bounded && (run->boundary_events = os_boundary_events(&run->boundary)) < 0) return false;
  if (!open_directory(run, parent->instance_directory)) {
    int error = errno;
    if (error != EEXIST) remove_directory(run);
    errno = error;
    return false;
  }
  if (!streams_open(run, &(struct frame){0}) || !save_anchor_file(run) || (bounded && !move(&parent->boundary, &run->boundary, root))) {
    remove_directory(run);
    return false;
  }
  snapshot_members(run, root);
  return true;
}

static void undo(struct run *run) {
  int error = errno;
  os_boundary_remove(&run->boundary);
  if (run->known != NULL) os_unmap(run->known, KNOWN_SIZE);
  if (run->boundary_events >= 0) os_close(run->boundary_events);
  if (run->dir >= 0) os_close(run->dir);
  if (run->listener >= 0) os_close(run->listener);
  run->active = false;
  errno = error;
}

static struct request read_request(struct run *run, const struct frame *frame) {
  struct request request = {.grace = run->policy.grace};
  frame_pid(frame, T_ROOT_PID, &request.root.pid);
  frame_number(frame, T_ROOT_START, &request.root.start);
  frame_number(frame, T_ROOT_UNIQUE, &request.root.unique);
  frame_time(frame, T_GRACE_MS, &request.grace);
  if (!frame_text(frame, T_SCOPE, request.scope, sizeof request.scope)) request.scope[0] = 0;
  request.complete = frame_text(frame, T_RUN_ID, request.id, sizeof request.id) && frame_text(frame, T_KEY, request.key, sizeof request.key) &&
                     strlen(request.key) >= 32 && strchr(request.id, '/') == NULL && request.id[0] != '.' && request.id[0] != 0;
  return request;
}

static void refuse_for_descriptors(struct run *run, struct connection *connection) {
  char message[200];
  snprintf(message, sizeof message,
           "the anchor's descriptor limit of %ld leaves no room for another run; raise ulimit -n where the gateway is started",
           os_descriptor_limit());
  refuse(run, connection, "adopt-descriptors", message);
}

static bool ends(struct run *run, struct connection *connection) {
  bool over = run->phase != RUNNING || run->stop.set;
  if (over) refuse(run, connection, "adopt-phase", "the run is not running, or is about to end");
  return over;
}

void handle_adopt(struct run *run, struct connection *connection, const struct frame *frame) {
  struct run *slot = free_slot();
  const struct request request = read_request(run, frame);
  struct member root;
  if (ends(run, connection)) return;
  if (os_limited()) {
    refuse(run, connection, "adopt-limited", "the run has limits, which cannot be divided");
    return;
  }
  if (run->boundary.cgroup < 0 && strcmp(os_strength(), "number") == 0) {
    refuse(run, connection, "adopt-weak", "without cgroups and process handles it could not be stopped separately from its run");
    return;
  }
  if (slot == NULL) {
    refuse(run, connection, "adopt-many", "this anchor serves as many runs as it can");
    return;
  }
  const long needed = DESCRIPTORS_OF_A_RUN + DESCRIPTORS_RESERVED;
  if (os_descriptors_free(needed) < needed) {
    refuse_for_descriptors(run, connection);
    return;
  }
  if (request.root.pid == run->child.id.pid || !open_member(run, &request.root, &root)) {
    if (request.root.pid != run->child.id.pid && errno == EMFILE) refuse_for_descriptors(run, connection);
    else refuse(run, connection, "adopt-member", "the process is not a member of this run, or is its leader");
    return;
  }
  if (connection->fd < 0 || ends(run, connection)) { /* collecting the members may have changed the state */
    os_release(&root);
    return;
  }
  if (!adopt(slot, run, &request, &root)) {
    undo(slot);
    int error = errno;
    os_release(&root);
    if (error == EMFILE) refuse_for_descriptors(run, connection);
    else refuse(run, connection, "adopt-failed", error == EOWNERDEAD ? zombie_leader_msg : error == ENOTSUP ? no_move_msg : strerror(error));
    return;
  }
  slot->leader_handle = os_exit_descriptor(&root);
  publish_heartbeat(); /* before the answer, because a launcher that ends the old run must spare this one */
  struct out out = connection_out(connection, F_ADOPTED);
  out_text(&out, T_RUN_ID, request.id);
  connection_send(run, connection, &out);
}
