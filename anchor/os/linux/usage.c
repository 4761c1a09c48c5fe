/* Linux: the resource usage of a run, and whether it reached a limit. */
#include <string.h>

#include "os/linux/linux.h"
#include "format/parse-number.h"

#define AT_LIMIT (1024 * 1024) /* v1 records the peak of granted memory, which is granted in batches; its fail counter may stay 0 */

/* Reads a value from a file of lines "key value". */
static bool line_value(int directory, const char *file, const char *key, uint64_t *out) {
  char text[8192];
  size_t length = strlen(key);
  if (directory < 0 || read_file_at(directory, file, text, sizeof text) <= 0) return false;
  for (char *line = text; line != NULL; line = strchr(line, '\n'), line = line == NULL ? NULL : line + 1)
    if (strncmp(line, key, length) == 0 && line[length] == ' ') return number_at(line + length + 1, out) != NULL;
  return false;
}

static bool only_value(int directory, const char *file, uint64_t *out) {
  char text[64];
  if (directory < 0 || read_file_at(directory, file, text, sizeof text) <= 0) return false;
  return number_at(text, out) != NULL; /* false for "max" */
}

/* True if a process was killed by the OOM killer and the limit was reached; the machine itself may be out of memory,
 * too. */
static bool memory_hit(const struct boundary *boundary) {
  uint64_t killed = 0, reached = 0;
  int old = limits_v1(LIMIT_MEMORY);
  if (old < 0)
    return line_value(boundary->cgroup, "memory.events", "oom_kill", &killed) && killed > 0 &&
           line_value(boundary->cgroup, "memory.events", "max", &reached) && reached > 0;
  return line_value(old, "memory.oom_control", "oom_kill", &killed) && killed > 0 &&
         only_value(old, "memory.max_usage_in_bytes", &reached) && reached + AT_LIMIT >= limits_asked(LIMIT_MEMORY);
}

const char *os_limit_hit(const struct boundary *boundary) {
  uint64_t refused = 0;
  int pids = limits_v1(LIMIT_PIDS) >= 0 ? limits_v1(LIMIT_PIDS) : boundary->cgroup;
  if (limits_asked(LIMIT_MEMORY) > 0 && memory_hit(boundary)) return "memory";
  if (limits_asked(LIMIT_PIDS) > 0 && line_value(pids, "pids.events", "max", &refused) && refused > 0) return "pids";
  return NULL;
}

void os_usage(const struct boundary *boundary, struct usage *usage) {
  uint64_t value;
  if (line_value(boundary->cgroup, "cpu.stat", "usage_usec", &value)) *usage = (struct usage){.cpu_known = true, .cpu_ms = value / 1000};
  else *usage = (struct usage){0};
  usage->memory_known = only_value(boundary->cgroup, "memory.peak", &value) || only_value(limits_v1(LIMIT_MEMORY), "memory.max_usage_in_bytes", &value);
  if (usage->memory_known) usage->peak_kb = value / 1024;
  usage->tasks_known = only_value(boundary->cgroup, "pids.peak", &value) || only_value(limits_v1(LIMIT_PIDS), "pids.peak", &value);
  if (usage->tasks_known) usage->peak_tasks = value;
}
