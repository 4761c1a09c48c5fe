/* Windows: limits are those of the job. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>

#define RATE_FULL 10000 /* hundredths of a percent of all processors */

static uint64_t limits_now[LIMITS];

static bool apply_base(HANDLE job) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION info = {.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
  if (limits_now[LIMIT_MEMORY] > 0) {
    info.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
    info.JobMemoryLimit = (SIZE_T)limits_now[LIMIT_MEMORY];
  }
  if (limits_now[LIMIT_PIDS] > 0) {
    info.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
    info.BasicLimitInformation.ActiveProcessLimit = (DWORD)(limits_now[LIMIT_PIDS] < UINT32_MAX ? limits_now[LIMIT_PIDS] : UINT32_MAX);
  }
  return SetInformationJobObject(job, JobObjectExtendedLimitInformation, &info, sizeof info) || fail_last();
}

static bool apply_rate(HANDLE job, uint64_t milli_cpus) {
  DWORD processors = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); /* GetSystemInfo counts at most the 64 of a group */
  if (processors == 0) return fail_last();
  uint64_t rate = milli_cpus * RATE_FULL / 1000 / processors;
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION info = {
      .ControlFlags = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP,
      .CpuRate = (DWORD)(rate < 1 ? 1 : rate > RATE_FULL ? RATE_FULL : rate),
  };
  return SetInformationJobObject(job, JobObjectCpuRateControlInformation, &info, sizeof info) || fail_last();
}

bool job_limits_apply(HANDLE job) { return apply_base(job); }

bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], os_pid supervisor, char *why, size_t size) {
  HANDLE job = job_of(boundary);
  (void)supervisor;
  why[0] = 0;
  for (int kind = 0; kind < LIMITS; kind++) limits_now[kind] = limits[kind];
  if (!os_limited()) return true;
  enum limit failed = limits[LIMIT_CPUS] > 0 && job != NULL && !apply_rate(job, limits[LIMIT_CPUS]) ? LIMIT_CPUS : LIMITS;
  if (failed == LIMITS && (job == NULL || !apply_base(job))) failed = limits[LIMIT_MEMORY] > 0 ? LIMIT_MEMORY : LIMIT_PIDS;
  if (failed == LIMITS) return true;
  snprintf(why, size, "the job of the run accepts no limit for %s", os_limit_name(failed));
  if (errno == 0) errno = ENOTSUP;
  return false;
}

bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size) {
  (void)kind;
  (void)runs;
  (void)out;
  (void)size;
  return false;
}

const char *os_limits_probe(enum limit kind, char *where, size_t size) {
  HANDLE job = CreateJobObjectW(NULL, NULL);
  if (job == NULL) return NULL;
  bool accepted = kind != LIMIT_CPUS || apply_rate(job, 1000);
  CloseHandle(job);
  snprintf(where, size, "job object");
  return accepted ? "job" : NULL;
}

const char *os_limit_name(enum limit kind) {
  static const char *const names[LIMITS] = {[LIMIT_MEMORY] = "memory", [LIMIT_PIDS] = "pids", [LIMIT_CPUS] = "cpu"};
  return names[kind];
}

bool os_limited(void) {
  for (int kind = 0; kind < LIMITS; kind++)
    if (limits_now[kind] > 0) return true;
  return false;
}
