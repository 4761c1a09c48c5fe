/* `anchor reap`: ends a run without its anchor, which is dead or does not answer.
 *
 * A silent anchor that serves only this run proves emptiness: it is a subreaper, so every process of the run is
 * below it, and the run is empty if only zombies are. It is killed last. An anchor that also serves other runs is
 * never signalled: then only the run's cgroup, or the subtree of its leader, is ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/process-json.h"
#include "modes/modes.h"
#include "format/parse-number.h"
#include "os/kill-tree.h"

#define DEATH_MS 2000
#define KILL_ROUNDS 20
#define RESIDUE_SHOWN 64

#define SPARED_MAX 16

struct request {
  struct identity root, anchor;
  const char *cgroup, *lease, *anchor_path, *anchor_run;
  uint64_t cgroup_inode, grace;
};

static struct member reap_root;
static struct member reap_anchor; /* handle and identity of the silent anchor; pid 0: none, or not verified */
static struct identity spared[SPARED_MAX]; /* leaders of the other runs of the same anchor */
static long spared_count;
static struct boundary reap_boundary;
static long known; /* number of processes found so far, in `members`, each with an open handle */

static bool is_known(os_pid pid) {
  for (long i = 0; i < known; i++)
    if (members[i].id.pid == pid && members[i].state != 'X') return true; /* X: gone, and its pid may be reused */
  return false;
}

static void keep_new(long found) {
  for (long i = known, end = known + found; i < end; i++) {
    struct member member = members[i];
    if (is_known(member.id.pid)) os_release(&member);
    else members[known++] = member;
  }
}

static bool is_spared(os_pid pid, const void *unused) {
  (void)unused;
  struct identity now;
  for (long i = 0; i < spared_count; i++)
    if (spared[i].pid == pid) return !os_identity(pid, &now) || os_same(&now, &spared[i]); /* a process that may be the leader is spared */
  return false;
}

/* Searches the children of every live member, not only of the root: when a parent dies, its children are no longer
 * below the root. Orphans become children of the anchor, so the anchor's children are read last and no orphan is
 * missed. */
static long collect_tree(void *unused, int signal) {
  (void)unused;
  for (long i = 0; i < known; i++)
    if (!os_refresh(&members[i])) members[i].state = 'X';
    else if (signal != 0 && !tree_dead(&members[i]) && members[i].state != 'T') os_signal(&members[i], signal);
  for (long i = 0; i < known; i++)
    if (!tree_dead(&members[i])) keep_new(os_children(&members[i], members + known, tree_room(known), is_spared, NULL, signal));
  if (reap_anchor.id.pid != 0) {
    long before = known;
    keep_new(os_children(&reap_anchor, members + known, tree_room(known), is_spared, NULL, signal));
    for (long i = before; i < known; i++)
      if (!tree_dead(&members[i])) keep_new(os_children(&members[i], members + known, tree_room(known), is_spared, NULL, signal));
  }
  long more = os_boundary_members(&reap_boundary, members + known, tree_room(known), NULL, NULL);
  if (more > 0) keep_new(more);
  return known;
}

static long living(void) {
  long left = 0;
  for (long i = 0; i < known; i++) left += !tree_dead(&members[i]);
  return left;
}

/* Start times collide within a clock tick: without a unique id a second fact must match. */
static bool verify(const struct request *request, char *why, size_t size) {
  char lease[256];
  if (os_untouchable(request->root.pid)) {
    snprintf(why, size, "it is this process, one of its ancestors, or in its process group: refused");
    return false;
  }
  if (!os_open(&request->root, &reap_root)) {
    snprintf(why, size, errno == ESRCH ? "the recorded process is gone" : "the recorded process cannot be inspected: left alone");
    return false;
  }
  bool marked = os_environ(reap_root.id.pid, "HOLDFAST_LEASE_ID", lease, sizeof lease);
  if (tree_dead(&reap_root)) snprintf(why, size, "the recorded process is a zombie");
  else if (request->root.unique != 0 && reap_root.id.unique == request->root.unique) snprintf(why, size, "unique id matches");
  else if (reap_boundary.cgroup >= 0 && os_boundary_holds(&reap_boundary, reap_root.id.pid)) snprintf(why, size, "start time and cgroup match");
  else if (marked && request->lease != NULL && strcmp(lease, request->lease) == 0) snprintf(why, size, "start time and lease marker match");
  else {
    snprintf(why, size, "start time matches but no second fact does: left alone");
    os_release(&reap_root);
    return false;
  }
  if (!tree_dead(&reap_root)) {
    members[known++] = reap_root;
    return true;
  }
  os_release(&reap_root);
  return false;
}

/* True if no process of the run is alive. Where the anchor is a subreaper, every process of the run is below it or in the
 * cgroup while it is alive. Elsewhere only the boundary proves that none is left. */
static bool empty_below_anchor(bool has_boundary) {
  (void)os_lookup_failed();
  if (tree_room(known) <= 0 || os_descendants(&reap_anchor, members + known, tree_room(known), NULL, NULL, 0) != 0) return false;
  if (os_lookup_failed() || !os_refresh(&reap_anchor) || tree_dead(&reap_anchor)) return false;
  return has_boundary ? os_boundary_empty(&reap_boundary) : os_boundary_missing(0) == EMPTY;
}

/* Returns "gone" if the anchor exited by itself meanwhile. */
static const char *kill_anchor(void) {
  if (os_signal(&reap_anchor, OS_KILL) != 0) return os_refresh(&reap_anchor) ? "kept" : "gone";
  (void)os_wait_exit(&reap_anchor, DEATH_MS);
  return !os_refresh(&reap_anchor) || tree_dead(&reap_anchor) ? "killed" : "kept";
}

static void wait_for_death(uint64_t patience) {
  uint64_t until = os_now_ms() + patience;
  for (long i = 0; i < known; i++) {
    uint64_t now = os_now_ms();
    if (!tree_dead(&members[i]) && now < until) (void)os_wait_exit(&members[i], members[i].handle < 0 ? 10 : (int)(until - now));
  }
}

static void json_member(struct json *json, bool first, const struct member *member, const char *kind) {
  json_key_number(json, first ? "{\"pid\":" : ",{\"pid\":", (uint64_t)member->id.pid);
  json_key_number(json, ",\"startTime\":", member->id.start);
  json_key_string(json, ",\"kind\":", kind);
  json_key_string(json, ",\"command\":", member->command);
  json_raw(json, "}");
}

/* Writes the processes that were ended besides the root. Without a root, no process is known to be in its session. */
static void json_residue(struct json *json, bool rooted, long ours) {
  int shown = 0;
  json_raw(json, ",\"residue\":[");
  for (long i = rooted ? 1 : 0; i < ours && shown < RESIDUE_SHOWN; i++)
    if (tree_dead(&members[i])) json_member(json, shown++ == 0, &members[i], rooted && members[i].sid == reap_root.sid ? "background" : "detached");
  json_raw(json, "]");
}

/* Members from `ours` on only have the marker: they have left the boundary, and are reported. */
static void print_reaped(bool verified, bool rooted, const char *why, long killed, bool whole, long ours, bool proven, const char *anchor) {
  struct json json = evidence_begin();
  json_raw(&json, verified ? "{\"verified\":true" : "{\"verified\":false");
  json_key_string(&json, ",\"why\":", why);
  json_key_number(&json, ",\"killed\":", (uint64_t)killed);
  json_key_string(&json, ",\"killMode\":", killed == 0 ? "none" : whole ? os_boundary_kind(&reap_boundary) : "pid");
  json_residue(&json, rooted, ours);
  json_raw(&json, ",\"survivors\":[");
  bool first = true;
  for (long i = 0; i < known; i++) {
    if (tree_dead(&members[i])) continue;
    json_member(&json, first, &members[i], i >= ours ? "migrated" : members[i].state == STATE_HIDDEN ? "hidden" : os_is_foreign(&members[i]) ? "foreign-uid" : "unkillable");
    first = false;
  }
  json_key_string(&json, "],\"emptiness\":", proven && first ? "proven" : "unproven");
  json_key_string(&json, ",\"anchor\":", anchor);
  json_raw(&json, "}");
  evidence_print(&json);
}

/* The pid option of a spared process comes first. */
static struct identity *last_spared(void) { return spared_count == 0 ? NULL : &spared[spared_count - 1]; }

static bool parse(int argc, char **argv, struct request *request) {
  for (int i = 0; i + 1 < argc; i += 2) {
    const char *value = argv[i + 1];
    uint64_t pid = 0;
    bool good = true;
    if (strcmp(argv[i], "--pid") == 0) good = number_within(value, INT32_MAX, &pid), request->root.pid = (os_pid)pid;
    else if (strcmp(argv[i], "--start") == 0) good = number_within(value, UINT64_MAX, &request->root.start);
    else if (strcmp(argv[i], "--unique") == 0) good = number_within(value, UINT64_MAX, &request->root.unique);
    else if (strcmp(argv[i], "--cgroup") == 0) request->cgroup = value;
    else if (strcmp(argv[i], "--cgroup-inode") == 0) good = number_within(value, UINT64_MAX, &request->cgroup_inode);
    else if (strcmp(argv[i], "--lease") == 0) request->lease = value;
    else if (strcmp(argv[i], "--grace") == 0) good = number_within(value, UINT64_MAX, &request->grace);
    else if (strcmp(argv[i], "--anchor-pid") == 0) good = number_within(value, INT32_MAX, &pid), request->anchor.pid = (os_pid)pid;
    else if (strcmp(argv[i], "--anchor-start") == 0) good = number_within(value, UINT64_MAX, &request->anchor.start);
    else if (strcmp(argv[i], "--anchor-unique") == 0) good = number_within(value, UINT64_MAX, &request->anchor.unique);
    else if (strcmp(argv[i], "--anchor-path") == 0) request->anchor_path = value;
    else if (strcmp(argv[i], "--anchor-run") == 0) request->anchor_run = value;
    else if (strcmp(argv[i], "--spare-pid") == 0 && spared_count < SPARED_MAX)
      good = number_within(value, INT32_MAX, &pid), spared[spared_count++].pid = (os_pid)pid;
    else if (strcmp(argv[i], "--spare-start") == 0 && last_spared() != NULL) good = number_within(value, UINT64_MAX, &last_spared()->start);
    else if (strcmp(argv[i], "--spare-unique") == 0 && last_spared() != NULL) good = number_within(value, UINT64_MAX, &last_spared()->unique);
    else return false;
    if (!good) return false;
  }
  request->grace = clamp_time(request->grace);
  bool named = request->root.pid != 0 || request->cgroup != NULL || request->anchor.pid != 0;
  return argc % 2 == 0 && named && !(request->anchor.pid != 0 && spared_count > 0); /* a shared anchor is never ended */
}

static void end_tree(uint64_t grace, bool in_cgroup, bool *whole) {
  collect_tree(NULL, 0);
  bool asked = grace > 0 && os_request_end(members, known) > 0; /* on Windows only the anchor can ask */
  uint64_t until = os_now_ms() + grace;
  while (asked && living() > 0 && os_now_ms() < until) {
    wait_for_death(10);
    collect_tree(NULL, 0);
  }
  for (int round = 0; round < KILL_ROUNDS; round++) {
    bool some = living() > 0;
    if (in_cgroup && os_boundary_kill(&reap_boundary)) *whole |= some;
    stop_then_kill(collect_tree, NULL);
    wait_for_death(DEATH_MS / KILL_ROUNDS);
    collect_tree(NULL, 0);
    if (living() == 0 && os_boundary_empty(&reap_boundary)) break;
  }
}

int reap_mode(int argc, char **argv) {
  struct request request = {0};
  char why[256] = "";
  if (!parse(argc, argv, &request)) {
    fprintf(stderr, "anchor reap: --pid N --start N [--unique N] [--cgroup PATH --cgroup-inode N] [--lease ID] [--grace MS]\n"
                    "             [--anchor-pid N --anchor-start N [--anchor-unique N] [--anchor-path PATH --anchor-run ID] | --spare-pid N --spare-start N [--spare-unique N] ...]\n");
    return 2;
  }
  reap_boundary.cgroup = -1;
  bool in_cgroup = request.cgroup != NULL && os_boundary_reopen(&reap_boundary, request.cgroup, request.cgroup_inode);
  bool rooted = request.root.pid != 0 && verify(&request, why, sizeof why);
  const char *not_anchor = request.anchor.pid == 0 ? "" : verify_anchor(&request.anchor, request.anchor_path, request.anchor_run, &reap_anchor);
  bool anchored = not_anchor == NULL;
  if (!anchored) reap_anchor.id.pid = 0;
  if (!rooted && !in_cgroup && !anchored) {
    const char *reason = why[0] != 0 ? why : request.anchor.pid != 0 ? not_anchor : "the recorded cgroup is gone or another one";
    print_reaped(false, false, reason, 0, false, 0, false, NULL);
    return 0;
  }
  if (!rooted) snprintf(why, sizeof why, anchored ? "the anchor is verified" : "cgroup path and inode match");
  os_harden_self();
  /* A working anchor would exit when its run is empty; its absence proves nothing. */
  bool halted = anchored && reap_anchor.state != 'T' && os_signal(&reap_anchor, OS_STOP) == 0;
  bool whole = false; /* cgroup.kill ended processes; TERM is sent to each one */
  end_tree(request.grace, in_cgroup, &whole);
  long killed = known - living(), ours = known;
  /* Without an anchor only the cgroup proves emptiness: ancestry misses processes whose parents died earlier. */
  bool proven = anchored ? empty_below_anchor(request.cgroup != NULL) : reap_boundary.cgroup >= 0 && os_boundary_empty(&reap_boundary);
  const char *anchor = anchored ? proven ? kill_anchor() : "kept" : NULL;
  if (halted && strcmp(anchor, "kept") == 0) (void)os_signal(&reap_anchor, OS_CONT);
  /* An adopted service has the marker of the run it came from. */
  if (request.lease != NULL && spared_count == 0)
    keep_new(os_marked("HOLDFAST_LEASE_ID", request.lease, members + known, tree_room(known)));
  print_reaped(true, rooted, why, killed, whole, ours, proven, anchor);
  if (in_cgroup && os_boundary_empty(&reap_boundary)) os_boundary_remove(&reap_boundary);
  return 0;
}
