#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

bool read_proc_stat(pid_t pid, struct proc_stat *out) {
  char path[32], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return false;
  line[n] = 0;
  char *open = strchr(line, '('), *close = strrchr(line, ')');
  unsigned long long user, system, start;
  long pages;
  if (open == NULL || close == NULL) return false;
  *close = 0;
  snprintf(out->command, sizeof out->command, "%.31s", open + 1);
  if (sscanf(close + 2, "%c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %d %*d %llu %*u %ld", &out->state, &out->ppid,
             &out->pgid, &user, &system, &out->threads, &start, &pages) != 8)
    return false;
  out->wait_status = (uint32_t)atoi(strrchr(close + 2, ' ') + 1); /* the last one: see proc(5) */
  const uint64_t tick_ms = 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
  out->start = start;
  out->start_ms = start * tick_ms;
  out->user_ns = user * tick_ms * 1000000;
  out->system_ns = system * tick_ms * 1000000;
  out->resident = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
  return true;
}
