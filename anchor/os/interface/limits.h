/* Limits of a run, and the resources that it used. */
#ifndef OS_LIMITS_H
#define OS_LIMITS_H

#include "os/interface/boundary.h"

/* Units: bytes, tasks (including threads), thousandths of a CPU. */
enum limit { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPUS, LIMITS };

/* Resource usage that the kernel counted for a whole run. */
struct usage {
  bool cpu_known, memory_known, tasks_known;
  uint64_t cpu_ms, peak_kb, peak_tasks;
};

/* Sets limits before the child is forked; 0 is no limit. False: `why` names the controller, and nothing may run. */
bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], os_pid supervisor, char *why, size_t size);
/* The v1 directory for a limit that belongs to the cgroup of all runs; false if there is none. */
bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size);
/* How and where a limit would be set from here: "v2", "v1", the same with "-refused" if it is not writable, or NULL. */
const char *os_limits_probe(enum limit kind, char *where, size_t size);
/* The name of its controller. */
const char *os_limit_name(enum limit kind);
/* True if our run has a limit, which an adopted process would lose. */
bool os_limited(void);
/* "memory" (a process was killed at the limit), "pids" (a fork was refused) or NULL. */
const char *os_limit_hit(const struct boundary *boundary);
void os_usage(const struct boundary *boundary, struct usage *usage);

#endif
