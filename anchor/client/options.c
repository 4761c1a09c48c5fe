/* Parses the usual forms of the options of `holdfast run`: src/cli/run/command.ts. Node parses all other forms. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "format/parse-number.h"

/* The same numbers as src/defaults/runs.ts. */
#define GRACE_MS 5000
#define SPOOL_BYTES (8u * 1024 * 1024)
#define DURATION_MAX (UINT64_C(365) * 86400000)
#define SIZE_MAX_BYTES (UINT64_C(1) << 52)

bool parse_duration(const char *text, uint64_t *out) {
  static const struct {
    const char *name;
    uint64_t ms;
  } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
  uint64_t total = 0, n;
  size_t next = 0;
  if (number_within(text, DURATION_MAX / 1000, &n)) { /* seconds */
    *out = n * 1000;
    return true;
  }
  while (*text != 0) {
    const char *unit = number_at(text, &n);
    if (unit == NULL || n > DURATION_MAX) return false;
    size_t length = strspn(unit, "dhms"), at = next;
    while (at < 5 && (strlen(units[at].name) != length || strncmp(unit, units[at].name, length) != 0)) at++;
    if (at == 5 || n > DURATION_MAX / units[at].ms) return false;
    total += n * units[at].ms;
    next = at + 1; /* each unit at most once, the largest first */
    text = unit + length;
  }
  *out = total;
  return next > 0 && total <= DURATION_MAX;
}

bool parse_size(const char *text, uint64_t *out) {
  static const char *const names[] = {"", "k", "K", "m", "M", "g", "G", "KiB", "MiB", "GiB"};
  static const int shifts[] = {0, 10, 10, 20, 20, 30, 30, 10, 20, 30};
  const char *unit = number_at(text, out);
  if (unit == NULL) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(unit, names[i]) != 0) continue;
    if (*out > SIZE_MAX_BYTES >> shifts[i]) return false;
    *out <<= shifts[i];
    return true;
  }
  return false;
}

/* A number that is the same text in JSON. */
static bool is_plain_number(const char *text) {
  size_t whole = strspn(text, "0123456789");
  if (whole == 0 || whole > 9 || (whole > 1 && *text == '0')) return false;
  if (text[whole] == 0) return true;
  size_t rest = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
  return rest > 0 && rest < 9 && text[whole + 1 + rest] == 0;
}

static bool add(char **list, const char *text) {
  while (*list != NULL) list++;
  *list = (char *)text;
  return true;
}

/* Applies an option with a value. */
static bool apply(struct options *o, const char *name, const char *value) {
  const char *equals = strchr(value, '=');
  if (strcmp(name, "--timeout") == 0) return parse_duration(value, &o->timeout);
  if (strcmp(name, "--no-output-timeout") == 0) return parse_duration(value, &o->no_output);
  if (strcmp(name, "--end-with-input") == 0) {
    uint64_t ms;
    if (!parse_duration(value, &ms)) return false;
    o->end_with_input = (int64_t)ms;
    return true;
  }
  if (strcmp(name, "--grace") == 0) return parse_duration(value, &o->grace);
  if (strcmp(name, "--buffer") == 0) return parse_size(value, &o->buffer) && o->buffer > 0;
  if (strcmp(name, "--memory") == 0) return parse_size(value, &o->memory) && o->memory > 0;
  if (strcmp(name, "--pids") == 0) return o->pids = value, is_plain_number(value);
  if (strcmp(name, "--cpus") == 0) return o->cpus = value, is_plain_number(value);
  if (strcmp(name, "--cwd") == 0) return o->cwd = value, *value != 0;
  if (strcmp(name, "--label") == 0) return equals != NULL && equals > value && add(o->labels, value);
  if (strcmp(name, "--env") == 0) return *value != 0 && equals != value && add(o->variables, value);
  if (strcmp(name, "--allow-env") == 0) return add(o->allowed, value);
  if (strcmp(name, "--on-escape") != 0) return false;
  o->on_escape = value;
  return strcmp(value, "fail") == 0 || strcmp(value, "sweep") == 0;
}

static bool apply_flag(struct options *o, const char *word) {
  if (strcmp(word, "--merge") == 0) return o->merge = true;
  if (strcmp(word, "--clear-env") == 0) return o->clear_env = true;
  if (strcmp(word, "--pty") != 0 && strcmp(word, "--no-pty") != 0) return false;
  o->pty = strcmp(word, "--pty") == 0;
  return o->pty_given = true;
}

bool parse_options(int argc, char **argv, struct options *out) {
  int at = 1;
  *out = (struct options){.on_escape = "fail", .end_with_input = -1, .grace = GRACE_MS, .buffer = SPOOL_BYTES};
  char **lists = calloc(3 * ((size_t)argc + 1), sizeof *lists);
  if (lists == NULL || argc < 3 || strcmp(argv[at++], "run") != 0) return false;
  out->labels = lists;
  out->variables = lists + argc + 1;
  out->allowed = lists + 2 * (argc + 1);
  for (; at < argc && argv[at][0] == '-'; at++) {
    char *word = argv[at], *equals = strchr(word, '=');
    if (strcmp(word, "--") == 0) {
      at++;
      break;
    }
    if (apply_flag(out, word)) continue;
    if (strcmp(word, "-e") == 0) word = "--env";
    else if (strncmp(word, "--", 2) != 0) return false;
    else if (equals != NULL && equals - word < 32) { /* --name=value */
      char name[32] = {0};
      memcpy(name, word, (size_t)(equals - word));
      if (!apply(out, name, equals + 1)) return false;
      continue;
    }
    if (at + 1 == argc || !apply(out, word, argv[at + 1])) return false;
    at++;
  }
  out->command = argv + at;
  return at < argc;
}
