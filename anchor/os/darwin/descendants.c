/* macOS: the processes below another, by the ids of the processes that forked them. An orphan stays below its nearest
 * living ancestor, as far as a lineage of this process knows it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/darwin/lineage/lineage.h"
#include "os/kill-tree.h"

static struct listed *copy; /* os_read_process and `skip` may list processes */
static long copied;

/* Also brings the lineages up to date, which know the ancestors of orphans. */
static bool copy_list(int signal) {
  const struct listed *list;
  bool scanned = lineage_scan_and_signal(signal), complete = list_processes(&list, &copied);
  for (long i = 0; i < copied; i++) complete &= !list[i].unread;
  struct listed *more = realloc(copy, (size_t)(copied + 1) * sizeof *copy);
  if (more == NULL) return false;
  copy = more;
  memcpy(copy, list, (size_t)copied * sizeof *copy);
  return scanned && complete;
}

static uint64_t unique_of(const struct member *member) {
  struct unique_info info;
  if (member->id.unique != 0) return member->id.unique;
  return read_unique(member->id.pid, &info) ? info.unique : 0;
}

/* A service that was adopted out of the run of a lineage is not below that run, although its parent is. */
static bool was_adopted(uint64_t unique) {
  struct lineage *of;
  return lineage_moved(unique) && lineage_find(unique, &of) == NULL;
}

static long add_children(uint64_t parent, struct member *out, long count, long max, bool (*skip)(os_pid, const void *), const void *of, int signal) {
  for (long i = 0; parent != 0 && i < copied && count < max; i++) {
    struct member *member = &out[count];
    const struct listed *child = &copy[i];
    if (child->unique == 0 || child->unique == parent || lineage_parent(child->unique, child->parent) != parent) continue;
    if (was_adopted(child->unique) || (skip != NULL && skip(child->pid, of)) || !os_read_process(child->pid, member)) continue;
    if (member->id.unique != child->unique || tree_dead(member)) continue;
    if (signal != 0 && member->state != 'T') os_signal(member, signal);
    count++;
  }
  return count;
}

long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of, int signal) {
  (void)copy_list(signal);
  return add_children(unique_of(parent), out, 0, max, skip, of, signal);
}

long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of, int signal) {
  bool complete = copy_list(signal);
  long count = add_children(unique_of(root), out, 0, max, skip, of, signal);
  for (long i = 0; i < count && count < max; i++) count = add_children(out[i].id.unique, out, count, max, skip, of, signal);
  if (complete || count > 0) return count;
  return -1;
}

/* ---- our own children ---- */

long os_count_children(bool (*skip)(os_pid, const void *), const void *of) {
  const pid_t *children;
  long found = list_children(getpid(), &children), count = 0;
  for (long i = 0; i < found; i++) count += !skip(children[i], of);
  return found < 0 ? -1 : count;
}

bool os_only_child(os_pid pid) {
  const pid_t *children;
  return list_children(getpid(), &children) == 1 && children[0] == pid;
}
