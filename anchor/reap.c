/* `anchor reap`: ending what has no anchor. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "evidence.h"
#include "modes.h"
#include "number.h"
#include "tree.h"

#define DEATH_MS 2000
#define KILL_ROUNDS 20
#define RESIDUE_SHOWN 64

struct request {
  struct identity root;
  const char *cgroup, *lease;
  uint64_t cgroup_inode, grace;
};

static struct member reap_root;
static struct boundary reap_boundary;
static long known; /* everyone found so far, in `members`, each behind a handle that stays open */

static bool is_known(pid_t pid) {
  for (long i = 0; i < known; i++)
    if (members[i].id.pid == pid) return true;
  return false;
}

static void keep_new(long found) {
  for (long i = known, end = known + found; i < end; i++) {
    struct member member = members[i];
    if (is_known(member.id.pid)) os_close(&member);
    else members[known++] = member;
  }
}

/* Children of everyone who still lives, not of the root alone: when a parent dies, only who was found before is found. */
static long collect_tree(int signal) {
  for (long i = 0; i < known; i++)
    if (!os_refresh(&members[i])) members[i].state = 'X';
    else if (signal != 0 && !tree_dead(&members[i]) && members[i].state != 'T') os_signal(&members[i], signal);
  for (long i = 0; i < known; i++)
    if (!tree_dead(&members[i])) keep_new(os_children(&members[i], members + known, tree_room(known), NULL, signal));
  long more = os_boundary_members(&reap_boundary, members + known, tree_room(known));
  if (more > 0) keep_new(more);
  return known;
}

static long living(void) {
  long left = 0;
  for (long i = 0; i < known; i++) left += !tree_dead(&members[i]);
  return left;
}

/* The start time alone collides within a clock tick: without a unique id a second fact must match. */
static bool verify(const struct request *request, char *why, size_t size) {
  char lease[256];
  if (os_untouchable(request->root.pid)) {
    snprintf(why, size, "it is ourselves, an ancestor of ours or of our own group: refused");
    return false;
  }
  if (!os_open(&request->root, &reap_root)) {
    snprintf(why, size, errno == ESRCH ? "the recorded process is gone" : "the recorded process cannot be looked at: left alone");
    return false;
  }
  bool marked = os_environ(reap_root.id.pid, "HOLDFAST_LEASE_ID", lease, sizeof lease);
  if (tree_dead(&reap_root)) snprintf(why, size, "the recorded process is a zombie");
  else if (request->root.unique != 0 && reap_root.id.unique == request->root.unique) snprintf(why, size, "unique id matches");
  else if (reap_boundary.cgroup >= 0 && os_boundary_holds(&reap_boundary, reap_root.id.pid)) snprintf(why, size, "start time and cgroup match");
  else if (marked && request->lease != NULL && strcmp(lease, request->lease) == 0) snprintf(why, size, "start time and lease marker match");
  else {
    snprintf(why, size, "start time matches but no second fact does: left alone");
    os_close(&reap_root);
    return false;
  }
  if (!tree_dead(&reap_root)) {
    members[known++] = reap_root;
    return true;
  }
  os_close(&reap_root);
  return false;
}

/* A handle is readable when its process has exited. */
static void wait_for_death(uint64_t patience) {
  uint64_t until = os_now_ms() + patience;
  for (long i = 0; i < known; i++) {
    uint64_t now = os_now_ms();
    struct pollfd p = {.fd = members[i].handle, .events = POLLIN};
    if (!tree_dead(&members[i]) && now < until) (void)poll(&p, 1, members[i].handle < 0 ? 10 : (int)(until - now));
  }
}

static void put_member(struct json *json, bool first, const struct member *member, const char *kind) {
  put_number(json, first ? "{\"pid\":" : ",{\"pid\":", (uint64_t)member->id.pid);
  put_number(json, ",\"startTime\":", member->id.start);
  put_text(json, ",\"kind\":", kind);
  put_text(json, ",\"command\":", member->command);
  json_raw(json, "}");
}

/* Who was ended besides the root. Without a root to compare with, nobody is known to have stayed in its session. */
static void put_residue(struct json *json, bool rooted, long ours) {
  int shown = 0;
  json_raw(json, ",\"residue\":[");
  for (long i = rooted ? 1 : 0; i < ours && shown < RESIDUE_SHOWN; i++)
    if (tree_dead(&members[i])) put_member(json, shown++ == 0, &members[i], rooted && members[i].sid == reap_root.sid ? "background" : "detached");
  json_raw(json, "]");
}

/* Those from `ours` on only carry the marker: they have left the boundary, and are reported. */
static void print_reaped(bool verified, bool rooted, const char *why, long killed, bool whole, long ours) {
  struct json json = evidence_begin();
  json_raw(&json, verified ? "{\"verified\":true" : "{\"verified\":false");
  put_text(&json, ",\"why\":", why);
  put_number(&json, ",\"killed\":", (uint64_t)killed);
  put_text(&json, ",\"killMode\":", killed == 0 ? "none" : whole ? "cgroup" : "pid");
  put_residue(&json, rooted, ours);
  json_raw(&json, ",\"survivors\":[");
  bool first = true;
  for (long i = 0; i < known; i++) {
    if (tree_dead(&members[i])) continue;
    put_member(&json, first, &members[i], i >= ours ? "migrated" : members[i].state == STATE_HIDDEN ? "hidden" : getuid() != 0 && members[i].uid != getuid() ? "foreign-uid" : "unkillable");
    first = false;
  }
  /* Only the cgroup knows everyone who was ever in: ancestry loses those whose parents died before we came. */
  bool proven = reap_boundary.cgroup >= 0 && os_boundary_empty(&reap_boundary) && first;
  put_text(&json, "],\"emptiness\":", proven ? "proven" : "unproven");
  json_raw(&json, "}");
  evidence_print(&json);
}

static bool parse(int argc, char **argv, struct request *request) {
  for (int i = 0; i + 1 < argc; i += 2) {
    const char *value = argv[i + 1];
    uint64_t pid = 0;
    bool good = true;
    if (strcmp(argv[i], "--pid") == 0) good = number_within(value, INT32_MAX, &pid), request->root.pid = (pid_t)pid;
    else if (strcmp(argv[i], "--start") == 0) good = number_within(value, UINT64_MAX, &request->root.start);
    else if (strcmp(argv[i], "--unique") == 0) good = number_within(value, UINT64_MAX, &request->root.unique);
    else if (strcmp(argv[i], "--cgroup") == 0) request->cgroup = value;
    else if (strcmp(argv[i], "--cgroup-inode") == 0) good = number_within(value, UINT64_MAX, &request->cgroup_inode);
    else if (strcmp(argv[i], "--lease") == 0) request->lease = value;
    else if (strcmp(argv[i], "--grace") == 0) good = number_within(value, UINT64_MAX, &request->grace);
    else return false;
    if (!good) return false;
  }
  request->grace = clamp_time(request->grace);
  return argc % 2 == 0 && (request->root.pid != 0 || request->cgroup != NULL);
}

int reap_mode(int argc, char **argv) {
  struct request request = {0};
  char why[256] = "";
  if (!parse(argc, argv, &request)) {
    fprintf(stderr, "anchor reap: --pid N --start N [--unique N] [--cgroup PATH --cgroup-inode N] [--lease ID] [--grace MS]\n");
    return 2;
  }
  reap_boundary.cgroup = -1;
  bool in_cgroup = request.cgroup != NULL && os_boundary_reopen(&reap_boundary, request.cgroup, request.cgroup_inode);
  bool verified = request.root.pid != 0 && verify(&request, why, sizeof why);
  if (!verified && !in_cgroup) {
    print_reaped(false, false, why[0] != 0 ? why : "the recorded cgroup is gone or another one", 0, false, 0);
    return 0;
  }
  if (!verified) snprintf(why, sizeof why, "cgroup path and inode match");
  os_protect_us();
  collect_tree(0);
  for (long i = 0; request.grace > 0 && i < known; i++)
    if (!tree_dead(&members[i]) && os_signal(&members[i], SIGTERM) == 0) os_signal(&members[i], SIGCONT);
  uint64_t until = os_now_ms() + request.grace;
  while (request.grace > 0 && living() > 0 && os_now_ms() < until) {
    wait_for_death(10);
    collect_tree(0);
  }
  bool whole = false; /* those who went when asked were asked one by one */
  for (int round = 0; round < KILL_ROUNDS; round++) {
    bool some = living() > 0;
    if (in_cgroup && os_boundary_kill(&reap_boundary)) whole |= some;
    stop_then_kill(collect_tree);
    wait_for_death(DEATH_MS / KILL_ROUNDS);
    collect_tree(0);
    if (living() == 0 && os_boundary_empty(&reap_boundary)) break;
  }
  long killed = known - living(), ours = known;
  if (request.lease != NULL) keep_new(os_marked("HOLDFAST_LEASE_ID", request.lease, members + known, tree_room(known)));
  print_reaped(true, verified, why, killed, whole, ours);
  if (in_cgroup && os_boundary_empty(&reap_boundary)) os_boundary_remove(&reap_boundary);
  return 0;
}
