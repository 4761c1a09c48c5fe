/* macOS: lists of processes. */
#include <errno.h>
#include <libproc.h>
#include <stdlib.h>

#include "os/darwin/darwin.h"

#define ROOM_FIRST 1024
#define ROOM_SPARE 64 /* processes that are started meanwhile */

static pid_t *pids;
static struct listed *listed;
static long room;

static bool make_room(long wanted) {
  if (wanted <= room) return true;
  long more = room == 0 ? ROOM_FIRST : room * 2;
  while (more < wanted) more *= 2;
  pid_t *new_pids = realloc(pids, (size_t)more * sizeof *pids);
  if (new_pids != NULL) pids = new_pids;
  struct listed *new_listed = new_pids == NULL ? NULL : realloc(listed, (size_t)more * sizeof *listed);
  if (new_listed == NULL) return false;
  listed = new_listed;
  room = more;
  return true;
}

/* Lists into `pids` until all fit; -1 and errno. */
static long list_all(void) {
  for (long wanted = proc_listallpids(NULL, 0);; wanted = room + 1) {
    if (wanted < 0 || !make_room(wanted + ROOM_SPARE)) return -1;
    int count = proc_listallpids(pids, (int)((size_t)room * sizeof *pids));
    if (count < 0 || count < room) return count;
  }
}

static int by_unique(const void *a, const void *b) {
  const struct listed *one = a, *other = b;
  return one->unique < other->unique ? -1 : one->unique > other->unique;
}

/* The kernel lists the newest first, which are those that end soonest. Pid 0 is the kernel. */
bool list_processes(const struct listed **out, long *count) {
  long found = list_all();
  *count = 0;
  for (long i = 0; i < found; i++) {
    struct unique_info info = {0};
    if (pids[i] <= 0) continue;
    bool read = read_unique(pids[i], &info);
    listed[(*count)++] = (struct listed){.unique = read ? info.unique : 0, .parent = read ? info.parent : 0, .pid = pids[i], .unread = !read};
  }
  if (*count > 0) qsort(listed, (size_t)*count, sizeof *listed, by_unique);
  *out = listed;
  return *count > 0;
}

const struct listed *find_listed(const struct listed *list, long count, uint64_t unique) {
  long low = 0, high = count;
  while (low < high) {
    long middle = low + (high - low) / 2;
    if (list[middle].unique < unique) low = middle + 1;
    else high = middle;
  }
  return low < count && list[low].unique == unique ? &list[low] : NULL;
}

long list_children(pid_t parent, const pid_t **out) {
  *out = pids;
  for (long wanted = ROOM_SPARE;; wanted = room + 1) {
    if (!make_room(wanted)) return -1;
    *out = pids;
    int count = proc_listchildpids(parent, pids, (int)((size_t)room * sizeof *pids));
    if (count < 0 || count < room) return count;
  }
}

bool os_each_process(void (*visit)(os_pid pid)) {
  long count = list_all();
  pid_t *found = count < 0 ? NULL : malloc((size_t)count * sizeof *found); /* `visit` may list processes */
  if (found == NULL) return false;
  for (long i = 0; i < count; i++) found[i] = pids[i];
  for (long i = 0; i < count; i++)
    if (found[i] > 0) visit(found[i]);
  free(found);
  return true;
}
