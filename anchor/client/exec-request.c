/* The request for a command, with the environment, directory and umask of this process: src/cli/run/detached.ts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "format/json-write.h"

extern char **environ;

#define VARIABLES_MAX 2000 /* each is compared with those before it */

static bool is_utf8(const char *text) {
  size_t length = strlen(text);
  while (length > 0) {
    size_t n = utf8_length(text, length);
    if (n == 0) return false;
    text += n;
    length -= n;
  }
  return true;
}

/* True for a variable that belongs to the run of this process; it is not passed on. */
static bool is_run_variable(const char *variable) {
  static const char *const names[] = {"HOLDFAST_LEASE_ID=", "HOLDFAST_RUN_ID=", "HOLDFAST_SESSION_KEY=", "HOLDFAST_GATEWAY_INSTANCE_ID=",
                                      "HOLDFAST_TOKEN="};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(variable, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* True if an earlier variable has the same name: getenv(3) finds that one. */
static bool is_repeated(char **list, size_t at, size_t name_length) {
  for (size_t i = 0; i < at; i++)
    if (strncmp(list[i], list[at], name_length + 1) == 0) return true;
  return false;
}

static bool add_member(struct json *json, bool *first, const char *text, size_t name_length, const char *value) {
  char *name = strndup(text, name_length);
  if (name == NULL || !is_utf8(name) || !is_utf8(value)) {
    free(name);
    return false;
  }
  if (!*first) json_raw(json, ",");
  *first = false;
  json_string(json, name);
  json_key_string(json, ":", value);
  free(name);
  return true;
}

static bool add_environment(struct json *json) {
  bool first = true;
  for (size_t i = 0; environ[i] != NULL; i++) {
    const char *equals = strchr(environ[i], '=');
    if (equals == NULL || equals == environ[i] || i >= VARIABLES_MAX) return false;
    size_t name_length = (size_t)(equals - environ[i]);
    if (is_run_variable(environ[i]) || is_repeated(environ, i, name_length)) continue;
    if (!add_member(json, &first, environ[i], name_length, equals + 1)) return false;
  }
  return true;
}

/* `NAME=value`; a variable may be named alone, and gets its value here. */
static bool add_pairs(struct json *json, char **pairs) {
  bool first = true;
  for (; *pairs != NULL; pairs++) {
    const char *equals = strchr(*pairs, '='), *value = equals != NULL ? equals + 1 : getenv(*pairs);
    if (value != NULL && !add_member(json, &first, *pairs, equals != NULL ? (size_t)(equals - *pairs) : strlen(*pairs), value)) return false;
  }
  return true;
}

static bool add_words(struct json *json, char **words) {
  for (char **word = words; *word != NULL; word++) {
    if (!is_utf8(*word)) return false;
    if (word > words) json_raw(json, ",");
    json_string(json, *word);
  }
  return true;
}

static void add_limits(struct json *json, const struct options *o) {
  const char *comma = "";
  json_raw(json, ",\"limits\":{");
  if (o->memory > 0) json_key_number(json, "\"memoryBytes\":", o->memory), comma = ",";
  if (o->pids != NULL) json_raw(json, comma), json_raw(json, "\"pids\":"), json_raw(json, o->pids), comma = ",";
  if (o->cpus != NULL) json_raw(json, comma), json_raw(json, "\"cpus\":"), json_raw(json, o->cpus);
  json_raw(json, "}");
}

/* Upper bound of the size in JSON, where one byte becomes at most six. */
static size_t words_size(char **words) {
  size_t size = 0;
  for (; *words != NULL; words++) size += 6 * strlen(*words) + 8;
  return size;
}

char *exec_request(const struct options *o, const char *run_id, int rows, int cols, size_t *length) {
  char cwd[CLIENT_PATH];
  if (!resolve_path(o->cwd == NULL ? "." : o->cwd, cwd) || !is_utf8(cwd)) return NULL;
  size_t size = words_size(o->command) + words_size(environ) + words_size(o->labels) + words_size(o->allowed) + 6 * CLIENT_PATH + 4096;
  for (char **each = o->variables; *each != NULL; each++) {
    const char *value = strchr(*each, '=') == NULL ? getenv(*each) : NULL;
    size += 6 * (strlen(*each) + (value == NULL ? 0 : strlen(value))) + 8;
  }
  struct json json = {.data = malloc(size), .size = size};
  if (json.data == NULL) return NULL;
  json_key_string(&json, "{\"runId\":", run_id);
  json_raw(&json, ",\"argv\":[");
  bool valid = add_words(&json, o->command);
  json_raw(&json, "],\"environment\":{");
  valid = valid && (o->clear_env || add_environment(&json));
  json_raw(&json, "},\"env\":{");
  valid = valid && add_pairs(&json, o->variables);
  json_raw(&json, "},\"labels\":{");
  valid = valid && add_pairs(&json, o->labels);
  json_raw(&json, "},\"allowEnv\":[");
  valid = valid && add_words(&json, o->allowed);
  json_raw(&json, o->pty ? "],\"pty\":true" : "],\"pty\":false");
  json_raw(&json, o->merge ? ",\"merge\":true" : ",\"merge\":false");
  json_key_string(&json, ",\"cwd\":", cwd);
#ifdef __linux__ /* as in Node: on other systems the umask of the gateway applies */
  mode_t mask = umask(0);
  umask(mask);
  json_key_number(&json, ",\"umask\":", mask & 0777);
#endif
  json_key_number(&json, ",\"timeoutMs\":", o->timeout);
  json_key_number(&json, ",\"noOutputTimeoutMs\":", o->no_output);
  json_key_number(&json, ",\"graceMs\":", o->grace);
  json_key_string(&json, ",\"onEscape\":", o->on_escape);
  add_limits(&json, o);
  if (rows > 0) json_key_number(&json, ",\"rows\":", (uint64_t)rows), json_key_number(&json, ",\"cols\":", (uint64_t)cols);
  json_key_number(&json, ",\"stdin\":\"pipe\",\"maxChars\":0,\"foreground\":{\"bufferBytes\":", o->buffer);
  json_raw(&json, "}}");
  *length = json.used;
  if (valid && !json.overflow) return json.data;
  free(json.data);
  return NULL;
}

bool new_id(const char *prefix, char *out, size_t size) {
  static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz"; /* Crockford's, as src/model/ids.ts */
  uint8_t random[12];
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  bool full = fd >= 0 && read(fd, random, sizeof random) == (ssize_t)sizeof random;
  if (fd >= 0) close(fd);
  size_t used = (size_t)snprintf(out, size, "%s_", prefix);
  if (!full || used + sizeof random >= size) return false;
  for (size_t i = 0; i < sizeof random; i++) out[used + i] = alphabet[random[i] & 31];
  out[used + sizeof random] = 0;
  return true;
}
