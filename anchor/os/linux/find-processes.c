/* Linux: finds processes: ancestors, all of /proc, and those with a marker. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

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

static struct {
  const char *name, *value;
  struct member *out;
  long count, max;
} search;

static void visit_marked(pid_t pid) {
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
