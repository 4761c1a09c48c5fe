/* Linux: pidfds, /proc, cgroup v2, subreaper. */
#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "linux.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define PIDFS_MAGIC 0x50494446 /* since 6.9 the inode of a pidfd is unique per boot */
#define CGROUP2_MAGIC 0x63677270
#define ANCESTORS 64
#define SUP_MAX (64 * 1024)
#define PREFERRED (-10)

struct weaken weaken;
static pid_t self, ancestors[ANCESTORS];
static int ancestor_count;
static bool ancestors_known;

const char *const step_names[] = {"none", "directory", "boundary", "pty", "stdio", "fork", "session", "cwd", "exec", "spec", "limit"};

uint64_t os_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- reading /proc ---- */

long slurp_at(int dir, const char *path, char *out, size_t size) {
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t used = 0;
  ssize_t n;
  while (used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0) used += (size_t)n;
  close(fd);
  out[used] = 0;
  return (long)used;
}

long slurp(const char *path, char *out, size_t size) { return slurp_at(AT_FDCWD, path, out, size); }

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
  if (slurp(path, line, sizeof line) <= 0) {
    if (errno == 0 || errno == ENOENT) errno = ESRCH;
    return false;
  }
  errno = EIO; /* said only when the rest is not as the manual has it */
  char *open = strchr(line, '('), *close = strrchr(line, ')'); /* the name may hold anything, ')' included */
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
  if (weaken.pidfd) {
    errno = ENOSYS;
    return -1;
  }
  return (int)syscall(SYS_pidfd_open, pid, 0);
}

static uint64_t unique_of(int handle) {
  static int is_pidfs = -1; /* the same for every handle of a kernel */
  struct statfs fs;
  struct stat st;
  if (handle < 0 || weaken.inode) return 0;
  if (is_pidfs < 0 && fstatfs(handle, &fs) == 0) is_pidfs = (uint32_t)fs.f_type == PIDFS_MAGIC;
  if (is_pidfs != 1) return 0;
  return fstat(handle, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static bool alive(int handle) { return syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0) == 0 || errno == EPERM; }

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
    weaken.cgroup = strstr(less, "cgroup") != NULL;
    weaken.pidfd = strstr(less, "pidfd") != NULL;
    weaken.inode = weaken.pidfd || strstr(less, "inode") != NULL;
    weaken.children = strstr(less, "children") != NULL;
    weaken.controllers = strstr(less, "controllers") != NULL;
  }
  self = getpid();
  ancestor_count = 0;
  ancestors_known = false;
  char seen[32] = "", own[32];
  snprintf(own, sizeof own, "%d", self);
  return readlink("/proc/self", seen, sizeof seen - 1) > 0 && strcmp(seen, own) == 0;
}

void os_close_above(int fd) {
  if (syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0) == 0) return;
  for (int i = fd + 1; i < 65536; i++) close(i); /* before 5.9 */
}

static void walk_ancestors(void) {
  struct stat_line line;
  ancestor_count = 0;
  for (pid_t at = self; ancestor_count < ANCESTORS && read_stat(at, &line) && line.ppid > 0; at = line.ppid)
    ancestors[ancestor_count++] = line.ppid;
  ancestors_known = true;
}

static bool among_ancestors(pid_t pid) {
  for (int i = 0; i < ancestor_count; i++)
    if (pid == ancestors[i]) return true;
  return false;
}

/* Walked when the first signal is sent, and again on a hit: an ancestor may have died and its number be a member's now. */
static bool is_ancestor(pid_t pid) {
  if (!ancestors_known) walk_ancestors();
  if (!among_ancestors(pid) && pid != getppid()) return false;
  walk_ancestors();
  return among_ancestors(pid);
}

/* Without a handle the facts are two readings that agree: enough to report, never to signal. */
bool os_look(pid_t pid, struct member *out) {
  struct stat_line line;
  memset(out, 0, sizeof *out);
  out->handle = open_handle(pid);
  out->id = (struct identity){.pid = pid, .unique = unique_of(out->handle)};
  if (out->handle < 0 && errno != ENOSYS && errno != EPERM) { /* EPERM: an old seccomp filter */
    if (errno == EINVAL || errno == ENOENT) errno = ESRCH;    /* a thread's number */
    return false;
  }
  bool seen = read_stat(pid, &line);
  int error = errno;
  bool held = out->handle >= 0, lives = !held || alive(out->handle);
  if (!seen || !lives) {
    os_close(out);
    /* Alive behind its handle and yet not there: /proc hides it (hidepid). */
    errno = !lives ? ESRCH : held && (error == ESRCH || error == EPERM) ? EACCES : error;
    return false;
  }
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

bool os_open(const struct identity *id, struct member *out) {
  if (!os_look(id->pid, out)) return false;
  bool same = out->id.start == id->start && (id->unique == 0 || out->id.unique == 0 || out->id.unique == id->unique);
  if (same) return true;
  os_close(out);
  errno = ESRCH;
  return false;
}

bool os_refresh(struct member *member) {
  struct stat_line line;
  if (!read_stat(member->id.pid, &line) || line.start != member->id.start) return false;
  if (member->handle >= 0 && !alive(member->handle)) return false;
  member->state = line.state;
  member->threads = line.threads;
  member->ppid = line.ppid;
  return true;
}

void os_close(struct member *member) {
  if (member->handle >= 0) close(member->handle);
  member->handle = -1;
}

bool os_identity(pid_t pid, struct identity *out) {
  struct member member;
  if (!os_look(pid, &member)) return false;
  *out = member.id;
  os_close(&member);
  return true;
}

void os_self(struct member *out) {
  memset(out, 0, sizeof *out);
  out->handle = -1;
  out->id.pid = self;
}

/* ---- the choke point ---- */

bool os_untouchable(pid_t pid) { return pid <= 1 || pid == self || is_ancestor(pid) || getpgid(pid) == getpgrp(); }

int os_signal(const struct member *member, int signal) {
  pid_t pid = member->id.pid;
  if (os_untouchable(pid)) return EINVAL;
  if (member->handle >= 0)
    return syscall(SYS_pidfd_send_signal, member->handle, signal, NULL, 0) == 0 ? 0 : errno;
  /* No handles on this kernel: only a child of ours may be signalled, whose number nobody can have before we wait. */
  struct stat_line line;
  if (!read_stat(pid, &line)) return ESRCH;
  if (line.ppid != self || line.start != member->id.start) return EPERM;
  return kill(pid, signal) == 0 ? 0 : errno;
}

static struct {
  bool known;
  struct rlimit files;
  int priority;
} callers;

void os_protect_us(void) {
  write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-900");
  callers.priority = getpriority(PRIO_PROCESS, 0);
  callers.known = getrlimit(RLIMIT_NOFILE, &callers.files) == 0;
  if (!callers.known) return;
  struct rlimit most = {.rlim_cur = callers.files.rlim_max, .rlim_max = callers.files.rlim_max};
  (void)setrlimit(RLIMIT_NOFILE, &most); /* a handle for every member of a large tree */
}

void os_prefer_us(bool on) {
  if (on || callers.known) (void)setpriority(PRIO_PROCESS, 0, on ? PREFERRED : callers.priority);
}

bool os_become_reaper(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

/* ---- descendants ---- */

#define CHILDREN_MAX 32768
static pid_t children[CHILDREN_MAX];

static long parse_pids(const char *text, long count) {
  char *end;
  for (long pid; count < CHILDREN_MAX && (pid = strtol(text, &end, 10)) > 0 && end != text; text = end)
    children[count++] = (pid_t)pid;
  return count;
}

/* Children files are long when a fork storm rages: read them in pieces, never cut inside a number. */
static long parse_children_file(const char *path, long count) {
  static char text[65536];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
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

/* For kernels without children files. */
static long scan_children(pid_t parent) {
  DIR *proc = opendir("/proc");
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

/* Fills `children`; -1 when they cannot be listed. Each thread has its own list. */
static long list_children(pid_t parent) {
  char path[64];
  struct stat_line line;
  if (weaken.children) return scan_children(parent);
  if (!read_stat(parent, &line)) return access("/proc/self/stat", R_OK) == 0 ? 0 : -1;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  long count = parse_children_file(path, 0);
  if (count < 0) return scan_children(parent);
  if (line.threads <= 1) return count;
  snprintf(path, sizeof path, "/proc/%d/task", parent);
  DIR *tasks = opendir(path);
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

long os_count_children(bool (*skip)(pid_t)) {
  long found = list_children(self), count = 0;
  for (long i = 0; i < found; i++) count += !skip(children[i]);
  return found < 0 ? -1 : count;
}

bool os_only_child(pid_t pid) { return list_children(self) == 1 && children[0] == pid; }

/* Without handles two readings must agree: enough to count its children, and os_signal will refuse them. */
bool still_itself(const struct member *member) {
  struct stat_line line;
  if (member->id.pid == self) return true;
  if (member->handle >= 0) return alive(member->handle);
  return read_stat(member->id.pid, &line) && line.start == member->id.start;
}

static long collect_children(const struct member *parent, struct member *out, long count, long max, bool (*skip)(pid_t), int signal) {
  long found = list_children(parent->id.pid);
  if (found < 0) return -1;
  for (long i = 0; i < found && count < max; i++) {
    struct member *member = &out[count];
    if ((skip != NULL && skip(children[i])) || !os_look(children[i], member)) continue;
    /* Its parent is `parent`, who is still itself (alive behind its handle, or ourselves): so it is a member. */
    bool buried = member->state == 'Z' && member->threads <= 1; /* it has no children: they have gone to their reaper */
    bool ours = !buried && member->ppid == parent->id.pid && still_itself(parent);
    if (ours && signal != 0 && member->state != 'T') os_signal(member, signal);
    if (ours) count++;
    else os_close(member);
  }
  return count;
}

long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(pid_t), int signal) {
  long count = collect_children(parent, out, 0, max, skip, signal);
  return count < 0 ? 0 : count;
}

long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(pid_t), int signal) {
  long count = collect_children(root, out, 0, max, skip, signal);
  if (count < 0) return -1;
  for (long i = 0; i < count && count < max; i++) {
    long more = collect_children(&out[i], out, count, max, skip, signal);
    if (more > 0) count = more;
  }
  return count;
}

/* ---- cgroup v2 ---- */

static char cgroup_root[PATH_SIZE], cgroup_root_path[PATH_SIZE];
static char came_from[PATH_SIZE]; /* our cgroup before we had one of our own */

/* Where cgroup2 is mounted, and which of its directories is the mount's root. */
static bool find_cgroup_root(void) {
  static char info[64 * 1024];
  if (cgroup_root[0] != 0) return true;
  if (slurp("/proc/self/mountinfo", info, sizeof info) <= 0) return false;
  char *rest = info;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char root[512], mount[512];
    char *type = strstr(line, " - ");
    if (type == NULL || strncmp(type, " - cgroup2 ", 11) != 0) continue;
    if (sscanf(line, "%*d %*d %*s %511s %511s", root, mount) != 2) continue;
    snprintf(cgroup_root, sizeof cgroup_root, "%s", mount);
    snprintf(cgroup_root_path, sizeof cgroup_root_path, "%s", strcmp(root, "/") == 0 ? "" : root);
    return true;
  }
  return false;
}

bool os_cgroup_of(pid_t pid, char *out, size_t size) {
  char path[32], text[4096];
  snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
  if (slurp(path, text, sizeof text) <= 0) return false;
  char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
  if (line == NULL) return false;
  line += line == text ? 3 : 4;
  line[strcspn(line, "\n")] = 0;
  snprintf(out, size, "%s", line);
  return true;
}

bool join(char *out, size_t size, const char *a, const char *b) {
  return (size_t)snprintf(out, size, "%s%s", a, b) < size;
}

bool write_in(const char *dir, const char *name, const char *text) {
  char path[PATH_SIZE + 64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return write_at(AT_FDCWD, path, text);
}

static void cut_end(char *text, const char *end) {
  size_t length = strlen(text), cut = strlen(end);
  if (length >= cut && strcmp(text + length - cut, end) == 0) text[length - cut] = 0;
}

bool cgroup_own(char *out, size_t size) {
  char own[PATH_SIZE];
  if (!find_cgroup_root() || !os_cgroup_of(self, own, sizeof own)) return errno = ENOENT, false;
  size_t prefix = strlen(cgroup_root_path);
  if (strncmp(own, cgroup_root_path, prefix) != 0 || strncmp(own, "/..", 3) == 0) return errno = EXDEV, false;
  errno = ENAMETOOLONG;
  return join(out, size, cgroup_root, strcmp(own, "/") == 0 ? "" : own + prefix);
}

bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  char own[PATH_SIZE], here[PATH_SIZE], base[PATH_SIZE], sup[PATH_SIZE], leaf[96], seat[112];
  if (weaken.cgroup) {
    snprintf(note, note_size, "cgroup use is switched off");
    return false;
  }
  if (!cgroup_own(here, sizeof here)) {
    if (errno == ENOENT) snprintf(note, note_size, "no cgroup v2 is mounted");
    else if (os_cgroup_of(self, own, sizeof own)) snprintf(note, note_size, "our cgroup %.100s is not visible here", own);
    return false;
  }
  snprintf(leaf, sizeof leaf, "/holdfast-%s", place);
  snprintf(seat, sizeof seat, "%s/sup", leaf);
  cut_end(here, seat); /* our supervisor is there since a limit was asked for */
  snprintf(came_from, sizeof came_from, "%s", here);
  cut_end(here, "/holdfast-gateway"); /* a unit's DelegateSubgroup: what is delegated lies above it */
  bool fits = join(base, sizeof base, here, leaf) && join(sup, sizeof sup, base, "/sup") && join(runs, size, base, "/runs");
  char *step = base;
  if (!fits) {
    errno = ENAMETOOLONG;
  } else if ((mkdir(base, 0755) == 0 || errno == EEXIST) && (step = sup, mkdir(sup, 0755) == 0 || errno == EEXIST) &&
             (step = runs, mkdir(runs, 0755) == 0 || errno == EEXIST) &&
             (step = sup, write_in(sup, "cgroup.procs", "0"))) {
    char probe[PATH_SIZE + 32];
    snprintf(probe, sizeof probe, "%s/cgroup.kill", runs);
    if (access(probe, W_OK) == 0) return true;
    snprintf(note, note_size, "the kernel has no cgroup.kill (older than 5.14)");
    os_cgroup_leave(runs);
    return false;
  }
  snprintf(note, note_size, "cgroup %.150s: %s", step, strerror(errno));
  if (fits) os_cgroup_leave(runs);
  return false;
}

void remove_tree(int dir) {
  DIR *entries = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (child < 0) continue;
    remove_tree(child);
    close(child);
    unlinkat(dir, entry->d_name, AT_REMOVEDIR);
  }
  closedir(entries);
}

/* Whoever went to `sup` goes back. A cgroup that hands out controllers takes nobody in: then they were handed out for us. */
static void leave_sup(const char *sup, const char *const chain[3]) {
  static const char *const words[] = {"-memory", "-pids", "-cpu"};
  static char text[SUP_MAX];
  char path[PATH_SIZE + 32];
  if (!write_in(came_from, "cgroup.procs", "0") && errno == EBUSY)
    for (int i = 0; i < 9; i++) write_in(chain[i / 3], "cgroup.subtree_control", words[i % 3]);
  snprintf(path, sizeof path, "%s/cgroup.procs", sup);
  if (slurp(path, text, sizeof text) <= 0) return;
  char *rest = text;
  for (char *pid; (pid = strsep(&rest, "\n")) != NULL && *pid != 0;) write_in(came_from, "cgroup.procs", pid);
}

void os_cgroup_leave(const char *runs) {
  char base[PATH_SIZE], parent[PATH_SIZE], sup[PATH_SIZE + 8];
  snprintf(base, sizeof base, "%s", runs);
  char *slash = strrchr(base, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(parent, sizeof parent, "%s", base);
  slash = strrchr(parent, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(sup, sizeof sup, "%s/sup", base);
  if (rmdir(runs) != 0 && errno == EBUSY) { /* a run that was abandoned, whose last process has died since, left its own */
    int dir = open(runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir >= 0) {
      remove_tree(dir);
      close(dir);
    }
    rmdir(runs);
  }
  leave_sup(sup, (const char *const[]){runs, base, parent});
  rmdir(sup);
  rmdir(base);
  for (int kind = 0; kind < LIMITS; kind++) {
    if (!os_limits_place((enum limit)kind, runs, base, sizeof base)) continue;
    int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0) continue;
    remove_tree(dir);
    close(dir);
    rmdir(base);
  }
}

bool cgroup_directory(const char *recorded, char *out, size_t size) {
  return join(out, size, cgroup_root, recorded + strlen(cgroup_root_path));
}

void os_cgroup_recorded(const char *path, char *out, size_t size) {
  snprintf(out, size, "%.400s%.600s", cgroup_root_path, path + strlen(cgroup_root));
}

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  char path[PATH_SIZE], leaf[96];
  struct stat st;
  memset(boundary, 0, sizeof *boundary);
  boundary->cgroup = -1;
  snprintf(leaf, sizeof leaf, "/%s", run_id);
  if (!find_cgroup_root() || !join(path, sizeof path, runs, leaf)) return false;
  boundary->cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (boundary->cgroup < 0) return false;
  boundary->inode = fstat(boundary->cgroup, &st) == 0 ? (uint64_t)st.st_ino : 0;
  os_cgroup_recorded(path, boundary->path, sizeof boundary->path);
  return true;
}

void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  char path[PATH_SIZE], leaf[96];
  *boundary = (struct boundary){.cgroup = -1};
  snprintf(boundary->note, sizeof boundary->note, "%s", note);
  if (runs == NULL) return;
  snprintf(leaf, sizeof leaf, "/%s", run_id);
  if (join(path, sizeof path, runs, leaf) && mkdir(path, 0755) == 0 && os_boundary_find(boundary, runs, run_id)) return;
  snprintf(boundary->note, sizeof boundary->note, "cgroup for this run: %s", strerror(errno));
}

bool os_boundary_reopen(struct boundary *boundary, const char *recorded, uint64_t inode) {
  char path[PATH_SIZE];
  struct stat st;
  memset(boundary, 0, sizeof *boundary);
  boundary->cgroup = -1;
  char *ours = strstr(recorded, "/holdfast-"); /* only a run's own directory, never `sup` or above */
  if (!find_cgroup_root() || ours == NULL || strstr(ours, "/runs/") == NULL || strstr(recorded, "/..") != NULL) return false;
  size_t prefix = strlen(cgroup_root_path);
  if (strncmp(recorded, cgroup_root_path, prefix) != 0 || !join(path, sizeof path, cgroup_root, recorded + prefix)) return false;
  boundary->cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (boundary->cgroup < 0) return false;
  if (fstat(boundary->cgroup, &st) == 0 && (uint64_t)st.st_ino == inode) {
    boundary->inode = inode;
    snprintf(boundary->path, sizeof boundary->path, "%s", recorded);
    return true;
  }
  close(boundary->cgroup);
  boundary->cgroup = -1;
  return false;
}

/* Of a path below a mount that is really there and shows our own cgroup; otherwise a missing path means nothing. */
static bool below_cgroup_root(const char *recorded, char *path, size_t size) {
  struct statfs fs;
  char own[PATH_SIZE];
  if (weaken.cgroup || !find_cgroup_root() || !os_cgroup_of(self, own, sizeof own) || strncmp(own, "/..", 3) == 0) return false;
  size_t prefix = strlen(cgroup_root_path);
  if (recorded[0] != '/' || strstr(recorded, "/..") != NULL) return false;
  if (strncmp(recorded, cgroup_root_path, prefix) != 0 || (recorded[prefix] != '/' && prefix != 0)) return false;
  if (!join(path, size, cgroup_root, recorded + prefix)) return false;
  return statfs(cgroup_root, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC;
}

const char *os_boundary_look(const char *recorded, uint64_t inode) {
  char path[PATH_SIZE], text[256];
  struct stat st;
  struct statfs fs;
  if (!below_cgroup_root(recorded, path, sizeof path)) return "unknown";
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (dir < 0) return errno == ENOENT ? "gone" : "unknown";
  const char *state = "unknown";
  if (fstatfs(dir, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_MAGIC && fstat(dir, &st) == 0) {
    if ((uint64_t)st.st_ino != inode) state = "gone";
    else if (slurp_at(dir, "cgroup.events", text, sizeof text) < 0) state = errno == ENOENT || errno == ENODEV ? "gone" : "unknown";
    else if (strstr(text, "populated 0") != NULL) state = "empty";
    else if (strstr(text, "populated 1") != NULL) state = "populated";
  }
  close(dir);
  return state;
}

bool os_boundary_empty(const struct boundary *boundary) {
  char text[256];
  if (boundary->cgroup < 0) return true;
  long length = slurp_at(boundary->cgroup, "cgroup.events", text, sizeof text);
  /* The directory is gone (or unreadable): a removed cgroup holds nobody. */
  return length < 0 ? errno == ENOENT || errno == ENODEV : strstr(text, "populated 0") != NULL;
}

bool os_boundary_holds(const struct boundary *boundary, pid_t pid) {
  char path[PATH_SIZE];
  size_t length = strlen(boundary->path);
  if (boundary->cgroup < 0) return true;
  if (!os_cgroup_of(pid, path, sizeof path)) return false;
  return strncmp(path, boundary->path, length) == 0 && (path[length] == 0 || path[length] == '/');
}

bool os_boundary_kill(const struct boundary *boundary) {
  if (boundary->cgroup < 0 || os_boundary_holds(boundary, self)) return false;
  walk_ancestors();
  for (int i = 0; i < ancestor_count; i++)
    if (os_boundary_holds(boundary, ancestors[i])) return false;
  return write_at(boundary->cgroup, "cgroup.kill", "1");
}

bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms) {
  char text[256];
  uint64_t until = os_now_ms() + patience_ms;
  int events = openat(boundary->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
  bool frozen = false, asked = events >= 0 && write_at(boundary->cgroup, "cgroup.freeze", "1");
  while (asked && !frozen) {
    struct pollfd p = {.fd = events, .events = POLLPRI};
    ssize_t n = pread(events, text, sizeof text - 1, 0);
    if (n <= 0) break;
    text[n] = 0;
    frozen = strstr(text, "frozen 1") != NULL;
    uint64_t now = os_now_ms();
    if (frozen || now >= until) break;
    (void)poll(&p, 1, (int)(until - now));
  }
  if (events >= 0) close(events);
  if (asked && !frozen) errno = ETIMEDOUT;
  return frozen;
}

void os_boundary_thaw(const struct boundary *boundary) { (void)write_at(boundary->cgroup, "cgroup.freeze", "0"); }

bool os_boundary_take(const struct boundary *boundary, pid_t pid) {
  char text[16];
  snprintf(text, sizeof text, "%d", pid);
  return write_at(boundary->cgroup, "cgroup.procs", text);
}

int os_boundary_events(const struct boundary *boundary) {
  return boundary->cgroup < 0 ? -1 : openat(boundary->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
}

long os_boundary_members(const struct boundary *boundary, struct member *out, long max) {
  static char text[64 * 1024];
  if (boundary->cgroup < 0) return 0;
  if (slurp_at(boundary->cgroup, "cgroup.procs", text, sizeof text) < 0) return -1;
  long found = parse_pids(text, 0), count = 0;
  for (long i = 0; i < found && count < max; i++) {
    if (!os_look(children[i], &out[count])) continue;
    if (os_boundary_holds(boundary, children[i]) && (out[count].handle < 0 || alive(out[count].handle))) count++;
    else os_close(&out[count]);
  }
  return count;
}

void os_boundary_remove(struct boundary *boundary) {
  char path[PATH_SIZE];
  if (boundary->cgroup < 0) return;
  limits_remove(boundary->path);
  if (cgroup_directory(boundary->path, path, sizeof path) && rmdir(path) != 0 && errno != ENOENT) {
    remove_tree(boundary->cgroup); /* a run may have made cgroups of its own */
    rmdir(path);
  }
  close(boundary->cgroup);
  boundary->cgroup = -1;
}

/* ---- the gated child ---- */

static int open_pty(const struct child_spec *spec, int *slave) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return -1;
  int unlock = 0;
  struct winsize size = {.ws_row = spec->rows, .ws_col = spec->cols};
  if (ioctl(master, TIOCSPTLCK, &unlock) == 0 && ioctl(master, TIOCSWINSZ, &size) == 0) {
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0) return master;
  }
  int error = errno;
  close(master);
  errno = error;
  return -1;
}

static void report(int fd, enum step step, int error) {
  struct child_report report = {.step = (int)step, .error = error};
  (void)!write(fd, &report, sizeof report);
}

static _Noreturn void fail(int fd, enum step step) {
  report(fd, step, errno);
  _exit(127);
}

static _Noreturn void child_main(const struct child_spec *spec, int gate, int status, const int io[3], int join_cgroup) {
  signal(SIGPIPE, SIG_DFL); /* the launcher has reset all others */
  signal(SIGXFSZ, SIG_DFL);
  if (callers.known) (void)setrlimit(RLIMIT_NOFILE, &callers.files);
  os_prefer_us(false);
  if (join_cgroup >= 0 && !write_at(join_cgroup, "cgroup.procs", "0")) fail(status, STEP_BOUNDARY);
  if (!limits_join()) fail(status, STEP_LIMIT);
  if (setsid() < 0) fail(status, STEP_SESSION);
  if (spec->pty && ioctl(io[0], TIOCSCTTY, 0) != 0) fail(status, STEP_PTY);
  /* Our descriptors first go above the standard ones, so that no dup2 closes one that is still needed. */
  gate = fcntl(gate, F_DUPFD_CLOEXEC, 10);
  status = fcntl(status, F_DUPFD_CLOEXEC, 10);
  int up[3];
  for (int i = 0; i < 3; i++)
    if ((up[i] = fcntl(io[i], F_DUPFD_CLOEXEC, 10)) < 0) fail(status, STEP_STDIO);
  for (int i = 0; i < 3; i++)
    if (dup2(up[i], i) < 0) fail(status, STEP_STDIO);
  /* Nothing else is held while it waits: the end of a connection must be the end, also for who sits at the other side. */
  if (dup3(gate, 3, O_CLOEXEC) < 0 || dup3(status, 4, O_CLOEXEC) < 0) fail(status, STEP_STDIO);
  gate = 3;
  status = 4;
  os_close_above(4);
  if (spec->cwd[0] != 0 && chdir(spec->cwd) != 0) fail(status, STEP_CWD);
  if (spec->set_umask) umask(spec->umask);
  write_at(AT_FDCWD, "/proc/self/oom_score_adj", "100"); /* an easier victim than the anchor above it */
  report(status, STEP_NONE, 0);
  char go;
  ssize_t n;
  while ((n = read(gate, &go, 1)) < 0 && errno == EINTR) continue;
  if (n != 1) _exit(127); /* no owner said GO: nothing of the target has run */
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  environ = (char **)spec->env;
  execvp(spec->argv[0], spec->argv);
  fail(status, STEP_EXEC);
}

/* Born inside the cgroup where the kernel can (writing cgroup.procs costs an RCU grace period), joined before the gate where not. */
static pid_t fork_into(const struct boundary *boundary, int *join_cgroup) {
  *join_cgroup = -1;
  if (boundary->cgroup >= 0) {
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)boundary->cgroup};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0) return pid;
    *join_cgroup = boundary->cgroup;
  }
  return fork();
}

enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out) {
  int gate[2] = {-1, -1}, status[2] = {-1, -1}, in[2] = {-1, -1}, po[2] = {-1, -1}, pe[2] = {-1, -1}, io[3];
  enum step step = STEP_STDIO;
  *out = (struct child){.gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  int error = 0;
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(status, O_CLOEXEC) != 0) goto failed;
  if (spec->pty) {
    step = STEP_PTY;
    if ((out->out = open_pty(spec, &out->slave)) < 0) goto failed;
    out->in = out->out;
    io[0] = io[1] = io[2] = out->slave;
  } else {
    if (spec->stdin_null ? (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 : pipe2(in, O_CLOEXEC) != 0) goto failed;
    if (pipe2(po, O_CLOEXEC) != 0 || (!spec->merge && pipe2(pe, O_CLOEXEC) != 0)) goto failed;
    io[0] = in[0];
    io[1] = po[1];
    io[2] = spec->merge ? po[1] : pe[1];
    int ours[3] = {in[1], po[0], pe[0]};
    for (int i = 0; i < 3; i++)
      if (ours[i] >= 0 && fcntl(ours[i], F_SETFL, O_NONBLOCK) != 0) goto failed;
  }
  step = STEP_FORK;
  int join_cgroup;
  pid_t pid = fork_into(boundary, &join_cgroup);
  if (pid < 0) goto failed;
  if (pid == 0) {
    close(gate[1]); /* else the child would hold its own gate open */
    child_main(spec, gate[0], status[1], io, join_cgroup);
  }
  close(gate[0]);
  close(status[1]);
  if (!spec->pty) {
    for (int i = 0; i < 3; i++)
      if (i < 2 || !spec->merge) close(io[i]);
    out->in = in[1];
    out->out = po[0];
    out->err = pe[0];
  }
  out->gate = gate[1];
  out->status = status[0];
  (void)fcntl(out->status, F_SETFL, O_NONBLOCK);
  out->id.pid = pid;
  return STEP_NONE;

failed:
  error = errno;
  int all[12] = {gate[0], gate[1], status[0], status[1], in[0], in[1], po[0], po[1], pe[0], pe[1], out->slave, spec->pty ? out->out : -1};
  for (int i = 0; i < 12; i++)
    if (all[i] >= 0) close(all[i]);
  errno = error;
  return step;
}

void os_dismiss(struct child *child) {
  struct member member;
  if (os_look(child->id.pid, &member)) { /* our child, not waited for: it may hang where it cannot see the gate */
    os_signal(&member, SIGKILL);
    os_close(&member);
  }
  int ends[5] = {child->gate, child->status, child->in, child->err, child->slave};
  for (int i = 0; i < 5; i++)
    if (ends[i] >= 0) close(ends[i]);
  if (child->out >= 0 && child->out != child->in) close(child->out);
  (void)waitpid(child->id.pid, NULL, __WALL);
}
