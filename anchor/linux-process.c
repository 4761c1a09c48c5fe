/* Linux: processes, by pidfd and /proc; subreaper. */
#include <dirent.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include "linux.h"

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

/* ---- reading /proc ---- */

static bool lookup_failed;

bool os_lookup_failed(void) {
  bool failed = lookup_failed;
  lookup_failed = false;
  return failed;
}

/* True if the error concerns resources, not the process. */
static bool short_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

static void record_lookup_failure(void) { lookup_failed |= short_of_descriptors(errno); }

long read_file_at(int dir, const char *path, char *out, size_t size) {
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) record_lookup_failure();
  if (fd < 0) return -1;
  size_t used = 0;
  ssize_t n;
  while (used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0) used += (size_t)n;
  close(fd);
  out[used] = 0;
  return (long)used;
}

long read_file(const char *path, char *out, size_t size) { return read_file_at(AT_FDCWD, path, out, size); }

bool write_at(int dir, const char *name, const char *text) {
  int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

struct stat_line {
  pid_t ppid, pgid, sid;
  int threads;
  uint64_t start, cpu_ms, rss_kb;
  char state;
  char command[COMMAND_SIZE];
};

static bool read_stat(pid_t pid, struct stat_line *out) {
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

/* ---- identity ---- */

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

/* True if the process exists, also one of another user: hidepid does not affect these calls. */
static bool exists(pid_t pid, int handle) { return handle >= 0 ? still_alive(handle) : getpgid(pid) >= 0 || errno != ESRCH; }

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

bool os_same(const struct identity *one, const struct identity *other) {
  if (one->pid != other->pid) return false;
  if (one->unique != 0 && other->unique != 0) return one->unique == other->unique;
  return one->start != 0 && one->start == other->start; /* 0: it was hidden when it was read */
}

bool os_open(const struct identity *id, struct member *out) {
  if (!os_read_process(id->pid, out)) return false;
  if (os_same(id, &out->id)) return true;
  bool unsure = (out->id.start == 0 || id->start == 0) && (id->unique == 0 || out->id.unique == 0);
  os_release(out);
  errno = unsure ? EACCES : ESRCH;
  return false;
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

bool os_identity(pid_t pid, struct identity *out) {
  struct member member;
  if (!os_read_process(pid, &member)) return false;
  *out = member.id;
  os_release(&member);
  return true;
}

void os_self(struct member *out) {
  memset(out, 0, sizeof *out);
  out->handle = -1;
  out->id.pid = self;
}

/* ---- signals ---- */

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

/* ---- descendants ---- */

#define CHILDREN_MAX 32768
static pid_t children[CHILDREN_MAX];

static long parse_pids(const char *text, long count) {
  char *end;
  for (long pid; count < CHILDREN_MAX && (pid = strtol(text, &end, 10)) > 0 && end != text; text = end)
    children[count++] = (pid_t)pid;
  return count;
}

long listed_pids(const char *text, const pid_t **out) {
  *out = children;
  return parse_pids(text, 0);
}

/* The children files of a fork bomb are long: read them in pieces, never cut inside a number. */
static long parse_children_file(const char *path, long count) {
  static char text[65536];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) record_lookup_failure();
  if (fd < 0) return -1;
  size_t kept = 0;
  ssize_t n;
  while ((n = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
    size_t have = kept + (size_t)n;
    text[have] = 0;
    char *last = strrchr(text, ' ');
    if (last == NULL) break;
    *last = 0;
    count = parse_pids(text, count);
    kept = have - (size_t)(last + 1 - text);
    memmove(text, last + 1, kept);
  }
  text[kept] = 0;
  close(fd);
  return kept > 0 ? parse_pids(text, count) : count;
}

static bool scanned; /* the last list was read from /proc, so hidden children are missing */

/* For kernels without children files. */
static long scan_children(pid_t parent) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) record_lookup_failure();
  scanned = true;
  if (proc == NULL) return -1;
  long count = 0;
  struct stat_line line;
  for (struct dirent *entry; count < CHILDREN_MAX && (entry = readdir(proc)) != NULL;) {
    pid_t pid = (pid_t)atoi(entry->d_name);
    if (pid > 0 && read_stat(pid, &line) && line.ppid == parent) children[count++] = pid;
  }
  closedir(proc);
  return count;
}

/* Fills `children`; -1 if they cannot be listed. Each thread has its own list. */
static long list_children(pid_t parent) {
  char path[64];
  struct stat_line line;
  scanned = false;
  if (test_disable.children) return scan_children(parent);
  if (!read_stat(parent, &line)) return !short_of_descriptors(errno) && access("/proc/self/stat", R_OK) == 0 ? 0 : -1;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  long count = parse_children_file(path, 0);
  if (count < 0) return scan_children(parent);
  if (line.threads <= 1) return count;
  snprintf(path, sizeof path, "/proc/%d/task", parent);
  DIR *tasks = opendir(path);
  if (tasks == NULL) record_lookup_failure();
  if (tasks == NULL) return count;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    pid_t thread = (pid_t)atoi(entry->d_name);
    if (thread <= 0 || thread == parent) continue;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, thread);
    long more = parse_children_file(path, count);
    if (more >= 0) count = more;
  }
  closedir(tasks);
  return count;
}

long os_count_children(bool (*skip)(pid_t, const void *), const void *of) {
  long found = list_children(self), count = 0;
  for (long i = 0; i < found; i++) count += !skip(children[i], of);
  siginfo_t info;
  if (found == 0 && scanned && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) return 1;
  return found < 0 ? -1 : count;
}

bool os_only_child(pid_t pid) { return list_children(self) == 1 && children[0] == pid && !scanned; }

/* Without handles two readings must agree: enough to count children, which os_signal refuses. */
bool is_same_process(const struct member *member) {
  struct stat_line line;
  if (member->id.pid == self) return true;
  if (member->handle >= 0) return still_alive(member->handle);
  return read_stat(member->id.pid, &line) && line.start == member->id.start;
}

/* The parent of a hidden process is not readable: it is a child if it is listed again after its handle was opened. */
static long keep_listed(const struct member *parent, struct member *out, long from, long count) {
  long found = list_children(parent->id.pid), kept = from;
  for (long i = from; i < count; i++) {
    bool keep = out[i].state != STATE_HIDDEN;
    for (long j = 0; !keep && j < found; j++) keep = children[j] == out[i].id.pid && exists(out[i].id.pid, out[i].handle) && is_same_process(parent);
    out[i].ppid = parent->id.pid;
    if (keep) out[kept++] = out[i];
    else os_release(&out[i]);
  }
  return kept;
}

static long collect_children(const struct member *parent, struct member *out, long count, long max, bool (*skip)(pid_t, const void *), const void *of, int signal) {
  /* The children file of a hidden process is hidden too. Those of its children that are not hidden show it as their
   * parent. */
  long found = parent->state == STATE_HIDDEN ? scan_children(parent->id.pid) : list_children(parent->id.pid), from = count;
  bool some_hidden = false;
  if (found < 0) return -1;
  for (long i = 0; i < found && count < max; i++) {
    struct member *member = &out[count];
    if ((skip != NULL && skip(children[i], of)) || !os_read_process(children[i], member)) continue;
    if (member->state == STATE_HIDDEN) {
      some_hidden = true;
      count++;
      continue;
    }
    /* Its parent is `parent`, which is still the same process, so it is a member. */
    bool is_zombie = member->state == 'Z' && member->threads <= 1; /* it has no children: their subreaper has them */
    bool ours = !is_zombie && member->ppid == parent->id.pid && is_same_process(parent);
    if (ours && signal != 0 && member->state != 'T') os_signal(member, signal);
    if (ours) count++;
    else os_release(member);
  }
  if (!some_hidden) return count;
  count = keep_listed(parent, out, from, count);
  for (long i = from; signal != 0 && i < count; i++)
    if (out[i].state == STATE_HIDDEN) os_signal(&out[i], signal);
  return count;
}

long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(pid_t, const void *), const void *of, int signal) {
  long count = collect_children(parent, out, 0, max, skip, of, signal);
  return count < 0 ? 0 : count;
}

long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(pid_t, const void *), const void *of, int signal) {
  long count = collect_children(root, out, 0, max, skip, of, signal);
  if (count < 0) return -1;
  for (long i = 0; i < count && count < max; i++) {
    long more = collect_children(&out[i], out, count, max, skip, of, signal);
    if (more > 0) count = more;
  }
  return count;
}
