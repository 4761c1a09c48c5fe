/* Linux: processes, by pidfd and /proc. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/linux/linux.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif
#define PIDFS_MAGIC 0x50494446 /* since Linux 6.9 the inode of a pidfd is unique per boot */
#define ANCESTORS 64

struct test_disable test_disable;
static pid_t self, ancestors[ANCESTORS];
static int ancestor_count;
static bool ancestors_known;

static bool lookup_failed;

bool os_lookup_failed(void) {
  bool failed = lookup_failed;
  lookup_failed = false;
  return failed;
}

bool short_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

void record_lookup_failure(void) { lookup_failed |= short_of_descriptors(errno); }

bool read_stat(pid_t pid, struct stat_line *out) {
  char path[32], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  errno = 0;
  if (read_file(path, line, sizeof line) <= 0) {
    if (errno == 0 || errno == ENOENT) errno = ESRCH;
    return false;
  }
  errno = EIO; /* for a line that is not as in proc(5) */
  char *open = strchr(line, '('), *close = strrchr(line, ')'); /* the name may contain any character, also ')' */
  if (open == NULL || close == NULL || close < open) return false;
  *close = 0;
  snprintf(out->command, sizeof out->command, "%s", open + 1);
  unsigned long long start, user, system;
  long pages;
  if (sscanf(close + 2, "%c %d %d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %d %*d %llu %*u %ld", &out->state,
             &out->ppid, &out->pgid, &out->sid, &user, &system, &out->threads, &start, &pages) != 9)
    return false;
  out->start = start;
  out->cpu_ms = (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
  out->rss_kb = pages < 0 ? 0 : (uint64_t)pages * (uint64_t)(sysconf(_SC_PAGESIZE) / 1024);
  return true;
}

static int open_handle(pid_t pid) {
  if (test_disable.pidfd) {
    errno = ENOSYS;
    return -1;
  }
  int handle = (int)syscall(SYS_pidfd_open, pid, 0);
  if (handle < 0) record_lookup_failure();
  return handle;
}

static uint64_t unique_of(int handle) {
  static int is_pidfs = -1; /* the same for every handle */
  struct statfs fs;
  struct stat st;
  if (handle < 0 || test_disable.inode) return 0;
  if (is_pidfs < 0 && fstatfs(handle, &fs) == 0) is_pidfs = (uint32_t)fs.f_type == PIDFS_MAGIC;
  if (is_pidfs != 1) return 0;
  return fstat(handle, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

bool still_alive(int handle) { return syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0) == 0 || errno == EPERM; }

const char *os_strength(void) {
  static const char *strength;
  if (strength != NULL) return strength;
  int handle = open_handle(getpid());
  strength = handle < 0 ? "number" : unique_of(handle) != 0 ? "unique" : "handle";
  if (handle >= 0) close(handle);
  return strength;
}

const char *const os_init_problem =
    "/proc belongs to another pid namespace, where pids mean other processes. Mount /proc for this namespace";

bool os_init(void) {
  const char *less = getenv("HOLDFAST_ANCHOR_WEAKEN");
  if (less != NULL) {
    test_disable.cgroup = strstr(less, "cgroup") != NULL;
    test_disable.pidfd = strstr(less, "pidfd") != NULL;
    test_disable.inode = test_disable.pidfd || strstr(less, "inode") != NULL;
    test_disable.children = strstr(less, "children") != NULL;
    test_disable.controllers = strstr(less, "controllers") != NULL;
  }
  self = getpid();
  ancestor_count = 0;
  ancestors_known = false;
  char seen[32] = "", own[32];
  snprintf(own, sizeof own, "%d", self);
  return readlink("/proc/self", seen, sizeof seen - 1) > 0 && strcmp(seen, own) == 0;
}

int walk_ancestors(const pid_t **out) {
  struct stat_line line;
  ancestor_count = 0;
  for (pid_t at = self; ancestor_count < ANCESTORS && read_stat(at, &line) && line.ppid > 0; at = line.ppid)
    ancestors[ancestor_count++] = line.ppid;
  ancestors_known = true;
  *out = ancestors;
  return ancestor_count;
}

static bool among_ancestors(pid_t pid) {
  for (int i = 0; i < ancestor_count; i++)
    if (pid == ancestors[i]) return true;
  return false;
}

/* Read before the first signal, and again on a match: an ancestor may have died and its pid been reused. */
static bool is_ancestor(pid_t pid) {
  const pid_t *all;
  if (!ancestors_known) walk_ancestors(&all);
  if (!among_ancestors(pid) && pid != getppid()) return false;
  walk_ancestors(&all);
  return among_ancestors(pid);
}

/* A pidfd is readable when all threads have exited. This detects a zombie that /proc hides. */
static bool has_exited(int handle) {
  struct pollfd p = {.fd = handle, .events = POLLIN};
  return handle >= 0 && poll(&p, 1, 0) == 1;
}

bool exists(pid_t pid, int handle) { return handle >= 0 ? still_alive(handle) : getpgid(pid) >= 0 || errno != ESRCH; }

static void fill_hidden(struct member *out) {
  out->state = has_exited(out->handle) ? 'Z' : STATE_HIDDEN;
  out->threads = 1;
  out->uid = (uid_t)-1;
  out->pgid = getpgid(out->id.pid);
  out->sid = getsid(out->id.pid);
  if (out->pgid < 0) out->pgid = 0;
  if (out->sid < 0) out->sid = 0;
}

/* Without a handle, two equal readings are enough to report a process, never to signal it. */
bool os_read_process(pid_t pid, struct member *out) {
  struct stat_line line;
  memset(out, 0, sizeof *out);
  out->handle = open_handle(pid);
  out->id = (struct identity){.pid = pid, .unique = unique_of(out->handle)};
  if (out->handle < 0 && errno != ENOSYS && errno != EPERM) { /* EPERM: an old seccomp filter */
    if (errno == EINVAL || errno == ENOENT) errno = ESRCH;    /* the id of a thread */
    return false;
  }
  bool seen = read_stat(pid, &line);
  int error = errno;
  bool hidden = !seen && (error == ESRCH || error == EPERM || error == EACCES);
  if (hidden) fill_hidden(out);
  if (!exists(pid, out->handle) || (!seen && !hidden)) {
    if (hidden) error = ESRCH;
    os_release(out);
    errno = seen ? ESRCH : error;
    return false;
  }
  if (hidden) return true;
  out->id.start = line.start;
  out->ppid = line.ppid;
  out->pgid = line.pgid;
  out->sid = line.sid;
  out->threads = line.threads;
  out->cpu_ms = line.cpu_ms;
  out->rss_kb = line.rss_kb;
  out->state = line.state;
  memcpy(out->command, line.command, sizeof out->command);
  char path[32];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d", pid);
  out->uid = stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
  return true;
}

/* A fifth of the work of os_read_process. */
bool os_is_alive(const struct identity *wanted) {
  if (wanted->unique == 0) return false;
  int handle = open_handle(wanted->pid);
  if (handle < 0) return false;
  bool alive = unique_of(handle) == wanted->unique && !has_exited(handle);
  close(handle);
  return alive;
}

bool os_refresh(struct member *member) {
  struct stat_line line;
  bool seen = read_stat(member->id.pid, &line);
  if (!exists(member->id.pid, member->handle)) return false;
  if (!seen) {
    member->state = has_exited(member->handle) ? 'Z' : STATE_HIDDEN;
    member->threads = 1;
    return true;
  }
  if (line.start != member->id.start && member->id.start != 0) return false;
  member->id.start = line.start;
  member->state = line.state;
  member->threads = line.threads;
  member->ppid = line.ppid;
  return true;
}

void os_release(struct member *member) {
  if (member->handle >= 0) close(member->handle);
  member->handle = -1;
}

int os_exit_descriptor(struct member *member) {
  int handle = member->handle;
  member->handle = -1;
  return handle;
}

bool os_wait_exit(const struct member *member, int timeout_ms) {
  struct pollfd p = {.fd = member->handle, .events = POLLIN};
  return poll(&p, 1, timeout_ms) > 0;
}

void os_self(struct member *out) {
  memset(out, 0, sizeof *out);
  out->handle = -1;
  out->id.pid = self;
}

/* Without handles two readings must agree: enough to count children, which os_signal refuses. */
bool is_same_process(const struct member *member) {
  struct stat_line line;
  if (member->id.pid == self) return true;
  if (member->handle >= 0) return still_alive(member->handle);
  return read_stat(member->id.pid, &line) && line.start == member->id.start;
}

bool os_untouchable(pid_t pid) { return pid <= 1 || pid == self || is_ancestor(pid) || getpgid(pid) == getpgrp(); }

int posix_signal(const struct member *member, int signal) {
  pid_t pid = member->id.pid;
  if (os_untouchable(pid)) return EINVAL;
  if (member->handle >= 0)
    return syscall(SYS_pidfd_send_signal, member->handle, signal, NULL, 0) == 0 ? 0 : errno;
  /* No handles on this kernel: only a child of ours may be signalled, because its pid is not reused before it is
   * reaped. */
  struct stat_line line;
  if (!read_stat(pid, &line)) return ESRCH;
  if (line.ppid != self || line.start != member->id.start) return EPERM;
  return kill(pid, signal) == 0 ? 0 : errno;
}

void os_harden_self(void) {
  write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-900");
  posix_keep_limits();
}
