/* The exit code and the last line of `holdfast run`: src/cli/run/exit-summary.ts, src/cli/print/exit-code.ts. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"

#define NAMED_RESIDUE 3

struct end {
  char reason[32], actor[256], limit_hit[16];
  int64_t code;   /* of the leader; -1: none */
  uint64_t signal, residue_count; /* signal 0: none */
  bool proven;
};

static bool read_end(struct json_value exit, struct end *out) {
  struct json_value leader = json_member(exit, "leader"), hit = json_member(exit, "limitHit");
  uint64_t code;
  *out = (struct end){.code = -1};
  if (!json_text(json_member(exit, "reason"), out->reason, sizeof out->reason)) return false;
  if (!json_text(json_member(exit, "actor"), out->actor, sizeof out->actor)) return false;
  if (!json_integer(json_member(exit, "residueCount"), &out->residue_count)) return false;
  if (hit.at != NULL && !json_is(hit, "null") && !json_text(hit, out->limit_hit, sizeof out->limit_hit)) return false;
  if (json_integer(json_member(leader, "code"), &code)) out->code = (int64_t)code;
  if (!json_integer(json_member(leader, "signal"), &out->signal)) out->signal = 0;
  out->proven = json_is(json_member(exit, "emptiness"), "\"proven\"");
  return true;
}

/* The exit code of the command, as a shell reports it. -1: the leader has neither a code nor a signal. */
static int command_code(const struct end *end) { return end->signal > 0 ? EXIT_SIGNAL + (int)end->signal : (int)end->code; }

/* The exit code for the reason of the end. -1: Node must report the end. */
static int run_code(const struct end *end) {
  int code = command_code(end);
  if (strcmp(end->reason, "exit") == 0 || strcmp(end->reason, "signal") == 0) return code;
  if (strcmp(end->reason, "overall-timeout") == 0 || strcmp(end->reason, "no-output-timeout") == 0) return EXIT_TIMEOUT;
  if (strcmp(end->reason, "ownership-escape") == 0) return code > 0 ? code : EXIT_ESCAPE;
  if (strcmp(end->reason, "manual-cancel") == 0 || strcmp(end->reason, "shutdown") == 0 || strcmp(end->reason, "owner-lost") == 0)
    return code > 0 ? code : EXIT_SIGNAL + SIGTERM;
  return -1;
}

/* Adds a part to the line. False: the part does not fit, or the line is not printable ASCII. */
static bool add(char *line, size_t size, const char *separator, const char *format, ...) __attribute__((format(printf, 4, 5)));
static bool add(char *line, size_t size, const char *separator, const char *format, ...) {
  size_t used = strlen(line);
  va_list values;
  if (used > 0) used += (size_t)snprintf(line + used, size - used, "%s", separator);
  va_start(values, format);
  int n = vsnprintf(line + used, size - used, format, values);
  va_end(values);
  if (n < 0 || (size_t)n >= size - used) return false;
  for (const char *at = line; *at != 0; at++)
    if (*at < 0x20 || *at > 0x7e) return false;
  return true;
}

static bool add_reason(char *line, size_t size, const struct end *end, const struct options *o) {
  char time[32];
  if (strcmp(end->reason, "overall-timeout") == 0) {
    format_duration(o->timeout, time, sizeof time);
    return add(line, size, "; ", "stopped: still running after %s (--timeout)", time);
  }
  if (strcmp(end->reason, "no-output-timeout") == 0) {
    format_duration(o->no_output, time, sizeof time);
    return add(line, size, "; ", "stopped: no output for %s (--no-output-timeout)", time);
  }
  if (strcmp(end->reason, "ownership-escape") == 0)
    return add(line, size, "; ", "the command left detached processes behind (--on-escape sweep accepts that)");
  if (strcmp(end->reason, "exit") == 0 || strcmp(end->reason, "signal") == 0) return true;
  if (strcmp(end->actor, INPUT_ENDED) == 0) return add(line, size, "; ", "stopped: it did not end with its input (--end-with-input)");
  return add(line, size, "; ", end->actor[0] == 0 ? "stopped" : "stopped by %s", end->actor);
}

static bool add_limit(char *line, size_t size, const struct end *end, const struct options *o) {
  char limit[32];
  if (end->limit_hit[0] == 0) return true;
  if (strcmp(end->limit_hit, "pids") == 0 && o->pids != NULL)
    return add(line, size, "; ", "refused more processes and threads: at its limit of %s (--pids)", o->pids);
  if (strcmp(end->limit_hit, "memory") != 0) return false;
  format_size(o->memory, limit, sizeof limit);
  const char *how = end->signal == SIGKILL ? "ended by signal SIGKILL" : "a process of it was killed";
  return add(line, size, "; ", "%s: over its memory limit of %s (--memory)", how, limit);
}

static bool add_residue(char *line, size_t size, const struct end *end, struct json_value exit) {
  struct json_value list = json_member(exit, "residue"), each;
  size_t at = 0;
  uint64_t named = 0, count = end->residue_count, pid;
  char command[64], kind[32];
  if (count == 0) return true;
  if (!add(line, size, "; ", "cleaned up %llu leftover %s", (unsigned long long)count, count == 1 ? "process" : "processes")) return false;
  for (; named < NAMED_RESIDUE && (each = json_next(list, &at)).at != NULL; named++) {
    if (!json_integer(json_member(each, "pid"), &pid) || !json_text(json_member(each, "command"), command, sizeof command)) return false;
    if (!json_text(json_member(each, "kind"), kind, sizeof kind)) return false;
    if (!add(line, size, named == 0 ? ": " : ", ", "%s (pid %llu, %s)", command[0] == 0 ? "?" : command, (unsigned long long)pid, kind)) return false;
  }
  return named == count || add(line, size, named == 0 ? ": " : ", ", "%llu more", (unsigned long long)(count - named));
}

/* The text of a write error, as libuv formats it. */
static const char *write_error(int error) {
  switch (error) {
    case ENOSPC: return "ENOSPC: no space left on device, write";
    case EFBIG: return "EFBIG: file too large, write";
    case EBADF: return "EBADF: bad file descriptor, write";
    default: return strerror(error);
  }
}

bool describe_exit(struct json_value exit, const struct options *o, const struct output outputs[STREAMS], int interrupt,
                     struct exit_summary *out) {
  struct end end;
  char text[sizeof out->message] = "";
  *out = (struct exit_summary){0};
  if (!read_end(exit, &end) || run_code(&end) < 0) return false;
  bool cancelled = strcmp(end.reason, "manual-cancel") == 0, interrupted = interrupt != 0 && cancelled;
  const struct output *failed = outputs[0].failed ? &outputs[0] : outputs[1].failed ? &outputs[1] : NULL;
  int own = failed != NULL && cancelled ? 0 : run_code(&end);
  if (!interrupted && !add_reason(text, sizeof text, &end, o)) return false;
  if (!add_limit(text, sizeof text, &end, o) || !add_residue(text, sizeof text, &end, exit)) return false;
  if (!end.proven && !add(text, sizeof text, "; ", "it is not proven that no process is left")) return false;
  if (failed == NULL) {
    out->code = interrupted ? EXIT_SIGNAL + interrupt : own;
    memcpy(out->message, text, sizeof text);
  } else if (failed->reader_gone) {
    out->code = own != 0 ? own : EXIT_READER_GONE;
    if (own != 0) memcpy(out->message, text, sizeof text);
  } else {
    out->code = own != 0 ? own : EXIT_FAILURE_OURS;
    snprintf(out->message, sizeof out->message, "cannot write %s: %s; %s", failed->stream == 1 ? "stdout" : "stderr", write_error(failed->error),
             cancelled ? "the command was stopped" : "the command has ended, but its output is incomplete");
  }
  return true;
}
