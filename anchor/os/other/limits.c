/* Other POSIX systems: limits, which are refused, and usage, which is not known. */
#include <errno.h>
#include <stdio.h>

#include "os/other/other.h"

const char *os_limit_name(enum limit kind) {
  static const char *const names[LIMITS] = {[LIMIT_MEMORY] = "memory", [LIMIT_PIDS] = "pids", [LIMIT_CPUS] = "cpu"};
  return names[kind];
}

bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], os_pid supervisor, char *why, size_t size) {
  (void)boundary;
  (void)supervisor;
  why[0] = 0;
  for (int kind = 0; kind < LIMITS; kind++) {
    if (limits[kind] == 0) continue;
    snprintf(why, size, "this system has no limit of %s for a group of processes", os_limit_name((enum limit)kind));
    errno = ENOTSUP;
    return false;
  }
  return true;
}

bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size) {
  (void)kind;
  (void)runs;
  (void)out;
  (void)size;
  return false;
}

const char *os_limits_probe(enum limit kind, char *where, size_t size) {
  (void)kind;
  (void)where;
  (void)size;
  return NULL;
}

bool os_limited(void) { return false; }

const char *os_limit_hit(const struct boundary *boundary) {
  (void)boundary;
  return NULL;
}

void os_usage(const struct boundary *boundary, struct usage *usage) {
  (void)boundary;
  *usage = (struct usage){0};
}
