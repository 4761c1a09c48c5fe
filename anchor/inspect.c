/* `anchor inspect` and `anchor reap`: looking at, and ending, what has no anchor. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "modes.h"
#include "os.h"
#include "tree.h"

#define SHOWN 512
#define DEATH_MS 2000
#define KILL_ROUNDS 20

static char text[512 * 1024];

static void print(struct json *json) {
  json_raw(json, "\n");
  if (!json->overflow) fwrite(json->data, 1, json->used, stdout);
}

static void put_number(struct json *json, const char *key, uint64_t value) {
  json_raw(json, key);
  json_number(json, value);
}

static void put_text(struct json *json, const char *key, const char *value) {
  json_raw(json, key);
  if (value == NULL) json_raw(json, "null");
  else json_string(json, value);
}

static void put_identity(struct json *json, const struct identity *id) {
  char unique[24];
  put_number(json, "\"pid\":", (uint64_t)id->pid);
  put_number(json, ",\"startTime\":", id->start);
  snprintf(unique, sizeof unique, "%llu", (unsigned long long)id->unique);
  put_text(json, ",\"uniqueId\":", id->unique == 0 ? NULL : unique);
}

static void put_facts(struct json *json, const struct member *member) {
  char state[2] = {member->state, 0};
  put_text(json, ",\"state\":", state);
  put_number(json, ",\"ppid\":", (uint64_t)member->ppid);
  put_number(json, ",\"pgid\":", (uint64_t)member->pgid);
  put_number(json, ",\"sid\":", (uint64_t)member->sid);
  put_number(json, ",\"uid\":", member->uid);
  put_text(json, ",\"command\":", member->command);
}

static void put_marker(struct json *json, const char *key, pid_t pid, const char *name) {
  char value[512];
  put_text(json, key, os_environ(pid, name, value, sizeof value) ? value : NULL);
}

static void inspect_one(const struct identity *wanted) {
  struct json json = {.data = text, .size = sizeof text};
  struct member root;
  char cgroup[PATH_SIZE];
  json_raw(&json, "{");
  if (!os_look(wanted->pid, &root)) {
    put_identity(&json, wanted);
    json_raw(&json, ",\"alive\":false,\"matches\":false,\"state\":\"\",\"ppid\":0,\"pgid\":0,\"sid\":0,\"uid\":0,\"command\":\"\","
                    "\"cgroup\":null,\"leaseId\":null,\"runId\":null,\"instanceId\":null,\"sessionKey\":null,\"descendants\":[]}");
    print(&json);
    return;
  }
  bool matches = (wanted->start == 0 || wanted->start == root.id.start) && (wanted->unique == 0 || root.id.unique == 0 || wanted->unique == root.id.unique);
  put_identity(&json, &root.id);
  json_raw(&json, tree_dead(&root) ? ",\"alive\":false" : ",\"alive\":true");
  json_raw(&json, matches && !tree_dead(&root) ? ",\"matches\":true" : ",\"matches\":false");
  put_facts(&json, &root);
  put_text(&json, ",\"cgroup\":", os_cgroup_of(root.id.pid, cgroup, sizeof cgroup) ? cgroup : NULL);
  put_marker(&json, ",\"leaseId\":", root.id.pid, "HOLDFAST_LEASE_ID");
  put_marker(&json, ",\"runId\":", root.id.pid, "HOLDFAST_RUN_ID");
  put_marker(&json, ",\"instanceId\":", root.id.pid, "HOLDFAST_GATEWAY_INSTANCE_ID");
  put_marker(&json, ",\"sessionKey\":", root.id.pid, "HOLDFAST_SESSION_KEY");
  json_raw(&json, ",\"descendants\":[");
  long count = os_descendants(&root, members, tree_max(), NULL, 0);
  for (long i = 0; i < count && i < SHOWN; i++) {
    json_raw(&json, i == 0 ? "{" : ",{");
    put_identity(&json, &members[i].id);
    put_facts(&json, &members[i]);
    json_raw(&json, "}");
  }
  json_raw(&json, "]}");
  if (count > 0) tree_release(count);
  os_close(&root);
  print(&json);
}

int inspect_mode(void) {
  char line[128];
  while (fgets(line, sizeof line, stdin) != NULL) {
    unsigned long long start = 0, unique = 0;
    int pid;
    if (sscanf(line, "%d %llu %llu", &pid, &start, &unique) < 1 || pid <= 0) {
      fprintf(stderr, "anchor inspect: not 'pid [startTime [uniqueId]]': %s", line);
      return 2;
    }
    inspect_one(&(struct identity){.pid = pid, .start = start, .unique = unique});
    fflush(stdout);
  }
  return 0;
}

/* ---- reap ---- */

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
    if (!tree_dead(&members[i])) keep_new(os_children(&members[i], members + known, tree_max() - known, signal));
  long more = os_boundary_members(&reap_boundary, members + known, tree_max() - known);
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
    snprintf(why, size, "the recorded process is gone");
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

/* Those from `ours` on only carry the marker: they have left the boundary, and are reported. */
static void print_reaped(bool verified, const char *why, long killed, long ours) {
  struct json json = {.data = text, .size = sizeof text};
  json_raw(&json, verified ? "{\"verified\":true" : "{\"verified\":false");
  put_text(&json, ",\"why\":", why);
  put_number(&json, ",\"killed\":", (uint64_t)killed);
  json_raw(&json, ",\"survivors\":[");
  bool first = true;
  for (long i = 0; i < known; i++) {
    if (tree_dead(&members[i])) continue;
    put_number(&json, first ? "{\"pid\":" : ",{\"pid\":", (uint64_t)members[i].id.pid);
    put_number(&json, ",\"startTime\":", members[i].id.start);
    put_text(&json, ",\"kind\":", i >= ours ? "migrated" : getuid() != 0 && members[i].uid != getuid() ? "foreign-uid" : "unkillable");
    put_text(&json, ",\"command\":", members[i].command);
    json_raw(&json, "}");
    first = false;
  }
  /* Only the cgroup knows everyone who was ever in: ancestry loses those whose parents died before we came. */
  bool proven = reap_boundary.cgroup >= 0 && os_boundary_empty(&reap_boundary) && first;
  put_text(&json, "],\"emptiness\":", proven ? "proven" : "unproven");
  json_raw(&json, "}");
  print(&json);
}

static bool parse(int argc, char **argv, struct request *request) {
  for (int i = 0; i + 1 < argc; i += 2) {
    unsigned long long n = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--pid") == 0) request->root.pid = (pid_t)n;
    else if (strcmp(argv[i], "--start") == 0) request->root.start = n;
    else if (strcmp(argv[i], "--unique") == 0) request->root.unique = n;
    else if (strcmp(argv[i], "--cgroup") == 0) request->cgroup = argv[i + 1];
    else if (strcmp(argv[i], "--cgroup-inode") == 0) request->cgroup_inode = n;
    else if (strcmp(argv[i], "--lease") == 0) request->lease = argv[i + 1];
    else if (strcmp(argv[i], "--grace") == 0) request->grace = n;
    else return false;
  }
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
    print_reaped(false, why[0] != 0 ? why : "the recorded cgroup is gone or another one", 0, known);
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
  for (int round = 0; round < KILL_ROUNDS; round++) {
    if (in_cgroup) os_boundary_kill(&reap_boundary);
    stop_then_kill(collect_tree);
    wait_for_death(DEATH_MS / KILL_ROUNDS);
    collect_tree(0);
    if (living() == 0 && os_boundary_empty(&reap_boundary)) break;
  }
  long killed = known - living(), ours = known;
  if (request.lease != NULL) keep_new(os_marked("HOLDFAST_LEASE_ID", request.lease, members + known, tree_max() - known));
  print_reaped(true, why, killed, ours);
  if (in_cgroup && os_boundary_empty(&reap_boundary)) os_boundary_remove(&reap_boundary);
  return 0;
}
