/* Linux: finds processes: ancestors, and all of /proc. */
#include <dirent.h>
#include <stdlib.h>

#include "os/linux/linux.h"

/* A parent is verified if the child still names it after it was opened, because the children of a dead process have
 * another parent. */
static bool open_parent(struct member *child, struct member *out) {
  if (child->ppid <= 0 || !os_read_process(child->ppid, out)) return false;
  if (os_refresh(child) && child->ppid == out->id.pid && is_same_process(out)) return true;
  os_release(out);
  return false;
}

long os_ancestors(const struct member *of, struct identity *out, long max) {
  struct member child = *of, parent;
  long count = 0;
  while (count < max && open_parent(&child, &parent)) {
    out[count++] = parent.id;
    if (child.handle != of->handle) os_release(&child);
    child = parent;
  }
  if (child.handle != of->handle) os_release(&child);
  return count;
}

bool os_each_process(void (*visit)(pid_t)) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return false;
  for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    pid_t pid = (pid_t)atoi(entry->d_name);
    if (pid > 0) visit(pid);
  }
  closedir(proc);
  return true;
}
