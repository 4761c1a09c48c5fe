/*
 * `anchor survey`: prints one JSON line for each launcher and anchor on this machine, and for each cgroup of a run, of all
 * state directories. `anchor supervisors`: the same for supervisors; it reads every descriptor of every process. Both
 * change nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/process-json.h"
#include "modes/modes.h"
#include "os/kill-tree.h"

#define WORDS_SIZE 4096
#define LINK_SIZE 4096
#define MARKER_SIZE 512
#define SHOWN 512
#define DELETED " (deleted)"
#define HASH_LENGTH 16
#define LOCK "/instance.lock"

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void cut_deleted(char *path) {
  if (ends_with(path, DELETED)) path[strlen(path) - strlen(DELETED)] = 0;
}

/* True for a state directory's copy of the binary, named by its content: `.../bin/anchor-<16 hex digits>`, with
 * the suffix of programs. */
static bool is_anchor_binary(const char *path) {
  const char *name = os_file_name(path);
  if (strncmp(name, "anchor-", 7) != 0) return false;
  return strspn(name + 7, "0123456789abcdef") == HASH_LENGTH && strcmp(name + 7 + HASH_LENGTH, os_program_suffix) == 0;
}

static const char *next_word(const char *word, const char *end) {
  word += strlen(word) + 1;
  return word < end ? word : NULL;
}

static const char *option_of(const char *words, const char *end, const char *name) {
  for (const char *word = words; word != NULL; word = next_word(word, end))
    if (strcmp(word, name) == 0) return next_word(word, end);
  return NULL;
}

static bool is_run_below(const char *target, void *runs) {
  char directory[LINK_SIZE];
  const char *run = strrchr(target, '/');
  if (run == NULL || ends_with(target, DELETED)) return false;
  snprintf(directory, sizeof directory, "%.*s", (int)(run - target), target);
  return ends_with(directory, runs);
}

/* The anchor keeps the directories of its runs open, `<instance>/runs/<run>`. True if one of them exists, so that
 * the instance's directory, or one above it, was renamed. */
static bool was_renamed(os_pid pid, const char *directory) {
  char runs[WORDS_SIZE + 8];
  const char *name = strrchr(directory, '/');
  snprintf(runs, sizeof runs, "%s/runs", name == NULL ? directory : name);
  return os_each_descriptor(pid, is_run_below, runs);
}

static void json_directory(struct json *json, os_pid pid, const char *directory) {
  json_key_string(json, ",\"directory\":", directory);
  int seen = os_path_seen_by(pid, directory);
  bool there = seen > 0 || (seen == 0 && was_renamed(pid, directory));
  json_key_string(json, ",\"there\":", there ? "yes" : seen == 0 ? "no" : "unknown");
}

/* Prints launchers and anchors, recognized by executable and command line. */
static void show_machinery(os_pid pid) {
  static char words[WORDS_SIZE], link[LINK_SIZE], cgroup[PATH_SIZE];
  struct member member;
  if (pid == os_own_pid() || !os_executable(pid, link, sizeof link)) return;
  cut_deleted(link);
  if (!is_anchor_binary(link) || !os_read_process(pid, &member)) return;
  long length = os_command_line(pid, words, sizeof words - 1);
  if (length > 0) words[length] = 0;
  const char *end = words + (length > 0 ? length : 0), *second = length > 0 ? next_word(words, end) : NULL;
  const char *run = second != NULL && strcmp(second, "run") == 0 ? next_word(second, end) : NULL;
  bool launches = second != NULL && strcmp(second, "launch") == 0;
  const char *directory = second == NULL ? NULL : option_of(second, end, "--dir");
  bool known = directory != NULL && os_is_absolute(directory) && (launches || run != NULL);
  bool in_cgroup = os_boundary_path_of(pid, cgroup, sizeof cgroup);
  struct json json = evidence_begin();
  json_key_string(&json, "{\"kind\":", launches ? "launcher" : "anchor");
  json_raw(&json, ",");
  json_identity_fields(&json, &member.id);
  json_key_string(&json, ",\"executable\":", link);
  json_key_string(&json, ",\"runId\":", launches ? NULL : run);
  json_key_string(&json, ",\"cgroup\":", in_cgroup ? cgroup : NULL);
  if (known) json_directory(&json, pid, directory);
  /* A value that was read by pid is valid only if the pid still names the same process. */
  if (known && os_refresh(&member) && !tree_dead(&member)) {
    json_process_facts(&json, &member);
    json_raw(&json, "}");
    evidence_print(&json);
  }
  os_release(&member);
}

static bool take_locked_directory(const char *target, void *directory) {
  char *out = directory;
  snprintf(out, LINK_SIZE, "%s", target);
  cut_deleted(out);
  if (!ends_with(out, LOCK)) return false;
  out[strlen(out) - strlen(LOCK)] = 0;
  return true;
}

/* Prints supervisors: processes with an open instance.lock, also a deleted one. */
static void show_supervisor(os_pid pid) {
  char directory[LINK_SIZE];
  if (!os_each_descriptor(pid, take_locked_directory, directory)) return;
  struct json json = evidence_begin();
  json_key_string(&json, "{\"kind\":", "supervisor");
  json_key_number(&json, ",\"pid\":", (uint64_t)pid);
  json_key_string(&json, ",\"directory\":", directory);
  json_raw(&json, "}");
  evidence_print(&json);
}

static void json_markers(struct json *json, os_pid pid) {
  char value[MARKER_SIZE];
  bool read = os_environ_load(pid);
  if (read) json_variable(json, ",\"runId\":", "HOLDFAST_RUN_ID", value, sizeof value);
  else json_raw(json, ",\"runId\":null");
  if (read) json_variable(json, ",\"instanceId\":", "HOLDFAST_GATEWAY_INSTANCE_ID", value, sizeof value);
  else json_raw(json, ",\"instanceId\":null");
}

static void show_boundary(const struct boundary *boundary, const char *place, const char *run_id) {
  long count = os_boundary_members(boundary, members, tree_max(), NULL, NULL);
  int shown = 0;
  struct json json = evidence_begin();
  json_key_string(&json, "{\"kind\":", "cgroup");
  json_key_string(&json, ",\"place\":", place);
  json_key_string(&json, ",\"runId\":", run_id);
  json_key_string(&json, ",\"path\":", boundary->path);
  json_key_number(&json, ",\"inode\":\"", boundary->inode);
  json_raw(&json, "\",\"members\":[");
  for (long i = 0; i < count && shown < SHOWN; i++) {
    if (tree_dead(&members[i])) continue;
    json_raw(&json, shown++ == 0 ? "{" : ",{");
    json_identity_fields(&json, &members[i].id);
    json_markers(&json, members[i].id.pid);
    json_key_string(&json, ",\"command\":", members[i].command);
    json_raw(&json, "}");
  }
  json_raw(&json, "]}");
  if (count > 0) tree_release(count);
  if (shown > 0) evidence_print(&json);
}

static bool show_processes(void show(os_pid pid)) {
  if (os_each_process(show)) return true;
  fprintf(stderr, "anchor: processes cannot be listed: %s\n", strerror(errno));
  return false;
}

static int flush_answer(void) { return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1; }

int survey_mode(void) {
  if (!show_processes(show_machinery)) return 1;
  os_each_boundary(show_boundary);
  return flush_answer();
}

int supervisors_mode(void) { return show_processes(show_supervisor) ? flush_answer() : 1; }
