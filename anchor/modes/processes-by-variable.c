/* Processes of other tools, identified by a variable in their environment: `anchor marked` lists them, `anchor reap
 * --only` ends one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/process-json.h"
#include "modes/modes.h"
#include "format/parse-number.h"
#include "os/kill-tree.h"

#define NAME_MAX_LENGTH 127
#define VALUE_SIZE 4096
#define OTHERS_MAX 16
#define OTHER_SIZE 1024
#define DEATH_MS 2000

/* True for names that a shell can set. */
static bool is_valid_name(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length > NAME_MAX_LENGTH || (name[0] >= '0' && name[0] <= '9')) return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* ---- marked ---- */

static const char *wanted_name;
static char **others;
static int other_count;

static void json_others(struct json *json) {
  char value[OTHER_SIZE];
  json_raw(json, ",\"others\":{");
  for (int i = 0; i < other_count; i++) {
    if (i > 0) json_raw(json, ",");
    json_string(json, others[i]);
    json_variable(json, ":", others[i], value, sizeof value);
  }
  json_raw(json, "}");
}

static void json_parent(struct json *json, const struct member *member) {
  struct identity parent;
  json_raw(json, ",\"parent\":");
  if (os_ancestors(member, &parent, 1) == 1) {
    json_raw(json, "{");
    json_identity_fields(json, &parent);
    json_raw(json, "}");
  } else {
    json_raw(json, "null");
  }
}

static void show_marked(os_pid pid) {
  static char value[VALUE_SIZE];
  struct member member;
  /* Most processes have no such variable, and are skipped. */
  if (pid == os_own_pid() || !os_environ_load(pid) || os_environ_value(wanted_name) == NULL || !os_read_process(pid, &member)) return;
  bool marked = os_environ_load(pid) && os_environ_value(wanted_name) != NULL; /* again, because the handle is open now */
  struct json json = evidence_begin();
  json_raw(&json, "{");
  json_identity_fields(&json, &member.id);
  json_variable(&json, ",\"value\":", wanted_name, value, sizeof value);
  json_variable(&json, ",\"runId\":", "HOLDFAST_RUN_ID", value, sizeof value);
  json_others(&json);
  json_argv(&json, ",\"argv\":", pid);
  json_parent(&json, &member);
  if (marked && os_refresh(&member) && !tree_dead(&member)) {
    json_process_facts(&json, &member);
    json_raw(&json, "}");
    evidence_print(&json);
  }
  os_release(&member);
}

int marked_mode(int argc, char **argv) {
  bool good = argc >= 1 && argc <= 1 + OTHERS_MAX;
  for (int i = 0; good && i < argc; i++) good = is_valid_name(argv[i]);
  if (!good) {
    fprintf(stderr, "anchor marked: NAME [OTHER...]: names of variables, letters, digits and _, at most %d others\n", OTHERS_MAX);
    return 2;
  }
  wanted_name = argv[0];
  others = argv + 1;
  other_count = argc - 1;
  if (!os_each_process(show_marked)) {
    fprintf(stderr, "anchor marked: processes cannot be listed: %s\n", strerror(errno));
    return 1;
  }
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

/* ---- reap --only ---- */

struct request {
  struct identity id;
  char name[NAME_MAX_LENGTH + 1];
  const char *value;
  uint64_t grace;
};

static bool take_marker(const char *text, struct request *request) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || (size_t)(equals - text) >= sizeof request->name) return false;
  memcpy(request->name, text, (size_t)(equals - text));
  request->value = equals + 1;
  return is_valid_name(request->name) && request->value[0] != 0;
}

static bool parse(int argc, char **argv, struct request *request) {
  uint64_t pid = 0;
  bool good = argc % 2 == 0;
  for (int i = 0; good && i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--pid") == 0) good = number_within(argv[i + 1], INT32_MAX, &pid);
    else if (strcmp(argv[i], "--start") == 0) good = number_within(argv[i + 1], UINT64_MAX, &request->id.start);
    else if (strcmp(argv[i], "--unique") == 0) good = number_within(argv[i + 1], UINT64_MAX, &request->id.unique);
    else if (strcmp(argv[i], "--grace") == 0) good = number_within(argv[i + 1], UINT64_MAX, &request->grace);
    else if (strcmp(argv[i], "--marker") == 0) good = take_marker(argv[i + 1], request);
    else good = false;
  }
  request->id.pid = (os_pid)pid;
  request->grace = clamp_time(request->grace);
  return good && pid > 0 && request->value != NULL;
}

/* The process belongs to another tool: everything must match. Returns NULL, or why it is left alone. */
static const char *verify(const struct request *request, struct member *out) {
  *out = (struct member){.handle = -1};
  if (os_untouchable(request->id.pid)) return "it is this process, one of its ancestors, or in its process group: refused";
  if (request->id.unique == 0) return "no unique id is on record: refused";
  if (!os_open(&request->id, out)) return "the process is gone, or is another one now";
  if (out->id.start != request->id.start) return "its start time is not the one given: refused";
  if (out->handle < 0 || out->id.unique != request->id.unique) return "this kernel has no unique ids: refused";
  if (tree_dead(out)) return "the process is a zombie";
  if (!os_environ_load(out->id.pid)) return "its environment cannot be read: left alone";
  const char *found = os_environ_value(request->name);
  if (found == NULL || strcmp(found, request->value) != 0) return "its environment does not have the marker: left alone";
  if (!os_refresh(out)) return "the process is gone, or is another one now"; /* what was read may belong to a successor with the same pid */
  return NULL;
}

static bool gone_within(struct member *member, uint64_t patience) {
  uint64_t until = os_now_ms() + patience;
  for (uint64_t now; (now = os_now_ms()) < until;)
    if (os_wait_exit(member, until - now > 60000 ? 60000 : (int)(until - now))) break;
  return !os_refresh(member) || tree_dead(member);
}

static void print_end(const struct member *member, const char *why_not, bool dead) {
  struct json json = evidence_begin();
  json_raw(&json, why_not == NULL ? "{\"verified\":true" : "{\"verified\":false");
  json_key_string(&json, ",\"why\":", why_not == NULL ? "unique id and marker match" : why_not);
  json_key_number(&json, ",\"killed\":", why_not == NULL && dead ? 1 : 0);
  json_key_string(&json, ",\"killMode\":", why_not == NULL && dead ? "pid" : "none");
  json_raw(&json, ",\"residue\":[],\"survivors\":[");
  if (why_not == NULL && !dead) {
    json_key_number(&json, "{\"pid\":", (uint64_t)member->id.pid);
    json_key_number(&json, ",\"startTime\":", member->id.start);
    json_key_string(&json, ",\"kind\":", os_is_foreign(member) ? "foreign-uid" : "unkillable");
    json_key_string(&json, ",\"command\":", member->command);
    json_raw(&json, "}");
  }
  json_raw(&json, "],\"emptiness\":\"unproven\"}"); /* nothing is known about its descendants */
  evidence_print(&json);
}

int reap_one_mode(int argc, char **argv) {
  struct request request = {0};
  struct member member;
  if (!parse(argc, argv, &request)) {
    fprintf(stderr, "anchor reap --only: --pid N --start N --unique N --marker NAME=value [--grace MS]\n");
    return 2;
  }
  const char *why_not = verify(&request, &member);
  bool dead = false;
  if (why_not == NULL && request.grace > 0) {
    (void)os_request_end(&member, 1);
    dead = gone_within(&member, request.grace);
  }
  if (why_not == NULL && !dead) {
    os_signal(&member, OS_KILL);
    dead = gone_within(&member, DEATH_MS);
  }
  print_end(&member, why_not, dead);
  os_release(&member);
  return fflush(stdout) == 0 ? 0 : 1;
}
