/* POSIX: finds processes by a marker in their environment. */
#include <string.h>

#include "os/os.h"

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
