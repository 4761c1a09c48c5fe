/* macOS: finds processes: ancestors, and those with a marker. */
#include <string.h>

#include "os/darwin/darwin.h"

/* A parent is verified if the child still names it after it was read, because the children of a dead process have
 * another parent. */
static bool read_parent(struct member *child, struct member *out) {
  return child->ppid > 0 && os_read_process(child->ppid, out) && os_refresh(child) && child->ppid == out->id.pid;
}

long os_ancestors(const struct member *of, struct identity *out, long max) {
  struct member child = *of, parent;
  long count = 0;
  while (count < max && read_parent(&child, &parent)) {
    out[count++] = parent.id;
    child = parent;
  }
  return count;
}

static struct {
  const char *name, *value;
  struct member *out;
  long count, max;
} search;

static void visit_marked(os_pid pid) {
  if (search.count >= search.max || !os_environ_load(pid)) return;
  const char *found = os_environ_value(search.name);
  if (found != NULL && strcmp(found, search.value) == 0 && os_read_process(pid, &search.out[search.count])) search.count++;
}

long os_marked(const char *name, const char *value, struct member *out, long max) {
  search.name = name;
  search.value = value;
  search.out = out;
  search.max = max;
  search.count = 0;
  os_each_process(visit_marked);
  return search.count;
}
