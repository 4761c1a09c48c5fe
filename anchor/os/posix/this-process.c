/* POSIX: this process: its clocks, limits and priority. */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "os/posix/posix.h"

#define PREFERRED (-10)

/* CLOCK_MONOTONIC of macOS counts the time of a suspend, poll(2) does not. */
#ifdef __APPLE__
#define AWAKE CLOCK_UPTIME_RAW
#else
#define AWAKE CLOCK_MONOTONIC
#endif

static uint64_t clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t os_now_ms(void) { return clock_ms(AWAKE); }

uint64_t os_wall_ms(void) { return clock_ms(CLOCK_REALTIME); }

char **os_arguments(int *argc, char **argv) {
  (void)argc;
  return argv;
}

os_pid os_own_pid(void) { return getpid(); }

os_pid os_parent(void) { return getppid(); }

/* ---- limits and priority of this process ---- */

static struct {
  bool known;
  struct rlimit files;
  int priority;
} callers;

void posix_keep_limits(void) {
  callers.priority = getpriority(PRIO_PROCESS, 0);
  callers.known = getrlimit(RLIMIT_NOFILE, &callers.files) == 0;
  if (!callers.known) return;
  struct rlimit most = {.rlim_cur = callers.files.rlim_max, .rlim_max = callers.files.rlim_max};
  (void)setrlimit(RLIMIT_NOFILE, &most); /* a handle for every member of a large tree */
}

void os_raise_priority(bool on) {
  if (on || callers.known) (void)setpriority(PRIO_PROCESS, 0, on ? PREFERRED : callers.priority);
}

void posix_restore_limits(void) {
  if (callers.known) (void)setrlimit(RLIMIT_NOFILE, &callers.files);
  os_raise_priority(false);
}
