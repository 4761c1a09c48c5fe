/* Linux: the children of a process, and its descendants. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/linux.h"

#define CHILDREN_MAX 32768
static pid_t children[CHILDREN_MAX];
static bool scanned; /* the last list was read from /proc, so hidden children are missing */

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

/* Fills `children`; -1 if they cannot be listed. Each thread has its own list: `threads` is their number. */
static long list_children(pid_t parent, int threads) {
  char path[64];
  struct stat_line line;
  scanned = false;
  if (test_disable.children) return scan_children(parent);
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  long count = parse_children_file(path, 0);
  if (count < 0 && !read_stat(parent, &line)) return !short_of_descriptors(errno) && access("/proc/self/stat", R_OK) == 0 ? 0 : -1;
  if (count < 0) return scan_children(parent);
  if (threads <= 1) return count;
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
  long found = list_children(getpid(), 1), count = 0;
  for (long i = 0; i < found; i++) count += !skip(children[i], of);
  struct os_ended ended;
  if (found == 0 && scanned && os_next_ended(&ended) >= 0) return 1; /* hidden children are missing */
  return found < 0 ? -1 : count;
}

bool os_only_child(pid_t pid) { return list_children(getpid(), 1) == 1 && children[0] == pid && !scanned; }

/* The parent of a hidden process is not readable: it is a child if it is listed again after its handle was opened. */
static long keep_listed(const struct member *parent, struct member *out, long from, long count) {
  long found = list_children(parent->id.pid, parent->threads), kept = from;
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
  long found = parent->state == STATE_HIDDEN ? scan_children(parent->id.pid) : list_children(parent->id.pid, parent->threads), from = count;
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
