/* `anchor inspect`: identities and evidence of processes, cgroups and ports, by queries on stdin. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/inspect-ports.h"
#include "modes/process-json.h"
#include "modes/modes.h"
#include "format/parse-number.h"
#include "os/kill-tree.h"

#define SHOWN 512
#define ANCESTORS_SHOWN 64
#define MARKER_SIZE 512

static bool brief, with_ports;

static void json_markers(struct json *json, os_pid pid) {
  static const char *const markers[][2] = {{",\"leaseId\":", "HOLDFAST_LEASE_ID"},
                                           {",\"runId\":", "HOLDFAST_RUN_ID"},
                                           {",\"instanceId\":", "HOLDFAST_GATEWAY_INSTANCE_ID"},
                                           {",\"sessionKey\":", "HOLDFAST_SESSION_KEY"}};
  char value[MARKER_SIZE];
  if (!os_environ_load(pid)) return;
  for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) json_variable(json, markers[i][0], markers[i][1], value, sizeof value);
}

static void json_ancestors(struct json *json, const struct member *root) {
  struct identity ancestors[ANCESTORS_SHOWN];
  long count = os_ancestors(root, ancestors, ANCESTORS_SHOWN);
  json_raw(json, ",\"ancestors\":[");
  for (long i = 0; i < count; i++) {
    json_raw(json, i == 0 ? "{" : ",{");
    json_identity_fields(json, &ancestors[i]);
    json_raw(json, "}");
  }
  json_raw(json, "]");
}

static void json_members(struct json *json, long count) {
  json_raw(json, "[");
  for (long i = 0; i < count && i < SHOWN; i++) {
    json_raw(json, i == 0 ? "{" : ",{");
    json_identity_fields(json, &members[i].id);
    json_process_facts(json, &members[i]);
    if (with_ports) json_ports(json, &members[i]);
    json_raw(json, "}");
  }
  json_raw(json, "]");
  if (count > 0) tree_release(count);
}

static void json_descendants(struct json *json, const struct member *root) {
  json_raw(json, ",\"descendants\":");
  json_members(json, os_descendants(root, members, tree_max(), NULL, NULL, 0));
}

static void json_evidence(struct json *json, const struct member *root) {
  char path[4096];
  json_key_string(json, ",\"cgroup\":", os_boundary_path_of(root->id.pid, path, sizeof path) ? path : NULL);
  json_key_string(json, ",\"executable\":", os_executable(root->id.pid, path, sizeof path) ? path : NULL);
  for (int fd = 0; fd < 3; fd++)
    json_key_string(json, fd == 0 ? ",\"stdio\":[" : ",", os_descriptor(root->id.pid, fd, path, sizeof path) ? path : NULL);
  json_raw(json, "]");
  json_argv(json, ",\"argv\":", root->id.pid);
  json_markers(json, root->id.pid);
  json_ancestors(json, root);
  json_descendants(json, root);
}

static void print_end(struct json *json, bool alive, bool matches) {
  json_raw(json, alive ? ",\"alive\":true" : ",\"alive\":false");
  json_raw(json, matches ? ",\"matches\":true}" : ",\"matches\":false}");
  evidence_print(json);
}

/* The answer for a process that is gone, as most are. */
static void print_gone(void) { fputs("null\n", stdout); }

/* False if nothing is known about it. */
static bool inspect_one(const struct identity *wanted) {
  struct member root;
  if (brief && os_is_alive(wanted)) {
    fputs("true\n", stdout);
    return true;
  }
  if (!os_read_process(wanted->pid, &root)) {
    if (errno == ESRCH) print_gone();
    return errno == ESRCH;
  }
  bool by_number = wanted->start == 0 && wanted->unique == 0, matches = by_number || os_same(wanted, &root.id);
  struct json json = evidence_begin();
  json_raw(&json, "{");
  json_identity_fields(&json, &root.id);
  bool same = true;
  if (matches && !brief && !tree_dead(&root)) {
    json_evidence(&json, &root);
    same = os_refresh(&root); /* what was read by pid meanwhile belongs to this process */
  }
  json_process_facts(&json, &root);
  if (same) print_end(&json, !tree_dead(&root), matches && !tree_dead(&root));
  else print_gone();
  os_release(&root);
  return true;
}

/* `cgroup <inode> <path>` */
static bool inspect_boundary(const char *line) {
  uint64_t inode;
  const char *end = number_at(line, &inode);
  if (end == NULL || end[0] != ' ' || !os_is_boundary_path(end + 1)) return false;
  printf("\"%s\"\n", os_boundary_state(end + 1, inode));
  return true;
}

/* `members <inode> <path>`: the processes of a cgroup, `null` unless path and inode both match. */
static bool inspect_members(const char *line) {
  uint64_t inode;
  struct boundary boundary;
  const char *end = number_at(line, &inode);
  if (end == NULL || end[0] != ' ' || !os_is_boundary_path(end + 1)) return false;
  long count = os_boundary_reopen(&boundary, end + 1, inode) ? os_boundary_members(&boundary, members, tree_max(), NULL, NULL) : -1;
  struct json json = evidence_begin();
  if (count < 0) json_raw(&json, "null");
  else json_members(&json, count);
  evidence_print(&json);
  os_boundary_close(&boundary);
  return true;
}

/* `pid [startTime [uniqueId]]` */
static bool parse_identity(const char *line, struct identity *out) {
  uint64_t number[3] = {0};
  const char *end = line;
  for (int i = 0; i < 3 && *line != 0; i++) {
    end = number_at(line, &number[i]);
    if (end == NULL) return false;
    line = *end == ' ' ? end + 1 : end;
  }
  *out = (struct identity){.pid = (os_pid)number[0], .start = number[1], .unique = number[2]};
  return *end == 0 && number[0] > 0 && number[0] <= INT32_MAX;
}

/* Returns the exit status, 0 to continue. */
static int answer(const char *line) {
  struct identity wanted;
  os_ports_forget();
  if (strncmp(line, "cgroup ", 7) == 0 && inspect_boundary(line + 7)) return 0;
  if (strncmp(line, "members ", 8) == 0 && inspect_members(line + 8)) return 0;
  if (strncmp(line, "port ", 5) == 0 && inspect_port(line + 5)) return 0;
  bool parsed = parse_identity(line, &wanted);
  if (parsed && inspect_one(&wanted)) return 0;
  if (parsed) {
    fprintf(stderr, "anchor inspect: cannot inspect process %d: %s\n", wanted.pid, strerror(errno));
    return 1;
  }
  fprintf(stderr, "anchor inspect: neither 'pid [startTime [uniqueId]]', 'cgroup inode path', 'members inode path' nor 'port number': %s\n", line);
  return 2;
}

/* Flushes answers before each read, so that a caller that asks line by line gets answers line by line. */
int inspect_mode(bool only_brief, bool and_ports) {
  static char input[64 * 1024];
  size_t have = 0;
  brief = only_brief;
  with_ports = and_ports;
  for (;;) {
    fflush(stdout);
    long n = os_read_input(input + have, sizeof input - 1 - have);
    if (n <= 0 && have > 0) input[have++] = '\n'; /* the last line may lack a line feed */
    else if (n <= 0) break;
    else have += (size_t)n;
    input[have] = 0;
    char *line = input;
    for (char *end; (end = memchr(line, '\n', have - (size_t)(line - input))) != NULL; line = end + 1) {
      *end = 0;
      int status = answer(line);
      if (status != 0) return status;
    }
    have -= (size_t)(line - input);
    memmove(input, line, have);
    if (have == sizeof input - 1) return answer("") /* no line is that long */;
  }
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
