#include "modes/process-json.h"

#include <stdio.h>
#include <string.h>

#define ARGV_WORDS 64
#define ARGV_SIZE 8192

static char text[1024 * 1024];

struct json evidence_begin(void) { return (struct json){.data = text, .size = sizeof text}; }

void evidence_print(struct json *json) {
  json_raw(json, "\n");
  if (!json->overflow) fwrite(json->data, 1, json->used, stdout);
}

void json_identity_fields(struct json *json, const struct identity *id) {
  char unique[24];
  json_key_number(json, "\"pid\":", (uint64_t)id->pid);
  json_key_number(json, ",\"startTime\":", id->start);
  snprintf(unique, sizeof unique, "%llu", (unsigned long long)id->unique);
  json_key_string(json, ",\"uniqueId\":", id->unique == 0 ? NULL : unique);
}

void json_process_facts(struct json *json, const struct member *member) {
  char state[2] = {member->state, 0};
  json_key_string(json, ",\"state\":", state);
  json_key_number(json, ",\"ppid\":", (uint64_t)member->ppid);
  json_key_number(json, ",\"pgid\":", (uint64_t)member->pgid);
  json_key_number(json, ",\"sid\":", (uint64_t)member->sid);
  json_key_number(json, ",\"uid\":", member->uid);
  json_key_number(json, ",\"cpuMs\":", member->cpu_ms);
  json_key_number(json, ",\"rssKb\":", member->rss_kb);
  json_key_string(json, ",\"command\":", member->command);
}

void json_argv(struct json *json, const char *key, os_pid pid) {
  char words[ARGV_SIZE];
  long length = os_command_line(pid, words, sizeof words), at = 0;
  json_raw(json, key);
  json_raw(json, "[");
  for (int i = 0; at < length && i < ARGV_WORDS; i++) {
    if (i > 0) json_raw(json, ",");
    json_string(json, words + at);
    at += (long)strlen(words + at) + 1;
  }
  json_raw(json, "]");
}

void json_variable(struct json *json, const char *key, const char *name, char *memory, size_t size) {
  const char *value = os_environ_value(name);
  if (value != NULL) snprintf(memory, size, "%s", value);
  json_key_string(json, key, value == NULL ? NULL : memory);
}
