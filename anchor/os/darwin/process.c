/* macOS: processes, by libproc. There are no handles: each signal is preceded by a check of the unique id. */
#include <errno.h>
#include <libproc.h>
#include <mach/mach_time.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/event.h>
#include <sys/proc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

#define ANCESTORS 64
#define WITH_ZOMBIES 1 /* the argument of proc_pidinfo */

static pid_t self, ancestors[ANCESTORS];
static int ancestor_count;
static bool ancestors_known, lookup_failed;

bool os_lookup_failed(void) {
  bool failed = lookup_failed;
  lookup_failed = false;
  return failed;
}

/* libproc returns 0 or -1 for an error, or less than was asked for. */
static bool query(pid_t pid, int flavor, void *out, int size) {
  errno = 0;
  if (proc_pidinfo(pid, flavor, WITH_ZOMBIES, out, size) == size) return true;
  lookup_failed |= errno == ENOMEM || errno == EMFILE || errno == ENFILE;
  if (errno == 0) errno = ESRCH;
  return false;
}

bool read_unique(pid_t pid, struct unique_info *out) { return query(pid, PROC_PIDUNIQIDENTIFIERINFO, out, sizeof *out); }

bool read_wait_status(pid_t pid, int *out) {
  struct proc_bsdinfo info;
  if (!query(pid, PROC_PIDTBSDINFO, &info, sizeof info) || info.pbi_status != SZOMB) return false;
  *out = (int)info.pbi_xstatus;
  return true;
}

uint64_t mach_ms(uint64_t ticks) {
  static mach_timebase_info_data_t base;
  if (base.denom == 0 && mach_timebase_info(&base) != 0) return 0;
  return (uint64_t)((double)ticks * base.numer / base.denom / 1e6);
}

const char *os_strength(void) { return "unique"; }

const char *const os_init_problem = "this process cannot read its own unique id; a sandbox may forbid it. Start it outside the sandbox";

bool os_init(void) {
  struct unique_info info;
  self = getpid();
  ancestor_count = 0;
  ancestors_known = false;
  return read_unique(self, &info);
}

static char state_of(uint32_t status) {
  switch (status) {
    case SSLEEP: return 'S';
    case SSTOP: return 'T';
    case SZOMB: return 'Z';
    default: return 'R';
  }
}

/* The start time and the usage of a process of another user are not readable; its identity is. */
static void read_more(pid_t pid, struct member *out) {
  struct proc_bsdinfo info;
  struct proc_taskinfo task;
  if (query(pid, PROC_PIDTBSDINFO, &info, sizeof info)) {
    out->id.start = info.pbi_start_tvsec * 1000000 + info.pbi_start_tvusec;
    if (info.pbi_name[0] != 0) snprintf(out->command, sizeof out->command, "%.*s", (int)sizeof info.pbi_name, info.pbi_name);
  }
  if (out->state == 'Z' || !query(pid, PROC_PIDTASKINFO, &task, sizeof task)) return;
  out->cpu_ms = mach_ms(task.pti_total_user + task.pti_total_system);
  out->rss_kb = task.pti_resident_size / 1024;
  out->threads = task.pti_threadnum;
}

bool os_is_alive(const struct identity *wanted) {
  (void)wanted; /* os_read_process finds out */
  return false;
}

bool os_read_process(os_pid pid, struct member *out) {
  struct proc_bsdshortinfo info;
  struct unique_info before, after;
  memset(out, 0, sizeof *out);
  out->handle = -1;
  if (!read_unique(pid, &before) || !query(pid, PROC_PIDT_SHORTBSDINFO, &info, sizeof info)) return false;
  out->id = (struct identity){.pid = pid, .unique = before.unique};
  out->ppid = (os_pid)info.pbsi_ppid;
  out->pgid = (os_pid)info.pbsi_pgid;
  out->uid = info.pbsi_uid;
  out->state = state_of(info.pbsi_status);
  out->threads = 1;
  snprintf(out->command, sizeof out->command, "%.*s", (int)sizeof info.pbsi_comm, info.pbsi_comm);
  pid_t session = getsid(pid);
  out->sid = session < 0 ? 0 : session;
  read_more(pid, out);
  if (read_unique(pid, &after) && after.unique == before.unique) return true; /* all of it is of one process */
  errno = ESRCH;
  return false;
}

bool os_refresh(struct member *member) {
  struct member now;
  if (!os_open(&member->id, &now)) return false;
  member->state = now.state;
  member->threads = now.threads;
  member->ppid = now.ppid;
  return true;
}

void os_release(struct member *member) { member->handle = -1; }

void os_self(struct member *out) {
  struct unique_info info;
  memset(out, 0, sizeof *out);
  out->handle = -1;
  out->id.pid = self;
  if (read_unique(self, &info)) out->id.unique = info.unique;
}

/* ---- waiting ---- */

static bool is_over(const struct member *member) {
  struct member now;
  bool there = os_open(&member->id, &now);
  return !there || now.state == 'Z';
}

/* A kqueue that is readable when the process has ended; -1 if it has, or there are no descriptors. */
static int open_exit(const struct member *member) {
  struct kevent wanted;
  int queue = kqueue();
  if (queue < 0) return -1;
  EV_SET(&wanted, (uintptr_t)member->id.pid, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
  if (kevent(queue, &wanted, 1, NULL, 0, NULL) == 0 && !is_over(member)) return queue; /* checked after: it is this process */
  close(queue);
  return -1;
}

int os_exit_descriptor(struct member *member) { return open_exit(member); }

bool os_wait_exit(const struct member *member, int timeout_ms) {
  int queue = open_exit(member);
  if (queue < 0) return is_over(member);
  struct os_poll set = {.fd = queue, .wants = OS_READ};
  os_poll(&set, 1, timeout_ms);
  close(queue);
  return set.ready != 0;
}

/* ---- signals ---- */

static void walk_ancestors(void) {
  struct proc_bsdshortinfo info;
  ancestor_count = 0;
  for (pid_t at = self; ancestor_count < ANCESTORS && query(at, PROC_PIDT_SHORTBSDINFO, &info, sizeof info) && info.pbsi_ppid > 0;
       at = (pid_t)info.pbsi_ppid)
    ancestors[ancestor_count++] = (pid_t)info.pbsi_ppid;
  ancestors_known = true;
}

static bool among_ancestors(pid_t pid) {
  for (int i = 0; i < ancestor_count; i++)
    if (pid == ancestors[i]) return true;
  return false;
}

/* Read before the first signal, and again on a match: an ancestor may have died and its pid been reused. */
static bool is_ancestor(pid_t pid) {
  if (!ancestors_known) walk_ancestors();
  if (!among_ancestors(pid) && pid != getppid()) return false;
  walk_ancestors();
  return among_ancestors(pid);
}

bool os_untouchable(os_pid pid) { return pid <= 1 || pid == self || is_ancestor(pid) || getpgid(pid) == getpgrp(); }

/* Between the check and kill(2) the pid would have to be freed and used again: macOS uses all other pids first. */
int posix_signal(const struct member *member, int signal) {
  struct unique_info now;
  if (os_untouchable(member->id.pid)) return EINVAL;
  if (!read_unique(member->id.pid, &now)) return errno;
  if (now.unique != member->id.unique) return ESRCH;
  if (kill(member->id.pid, signal) == 0) return 0;
  int error = errno;
  return error == EPERM && is_over(member) ? ESRCH : error;
}

void os_harden_self(void) {
  struct rlimit files;
  posix_keep_limits();
  /* The kernel refuses an unlimited number. */
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= OPEN_MAX) return;
  files.rlim_cur = files.rlim_max < OPEN_MAX ? files.rlim_max : OPEN_MAX;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}
