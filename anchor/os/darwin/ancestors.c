/* macOS: finds the ancestors of a process. */

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
