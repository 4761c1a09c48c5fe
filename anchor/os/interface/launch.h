/* A launcher: it leaves its caller, and starts anchors. */
#ifndef OS_LAUNCH_H
#define OS_LAUNCH_H

#include "os/interface/process.h"

/* For a launcher. Closes all that it inherited but the standard descriptors, and leaves the caller's session. */
void os_detach(void);
/* Closes the standard descriptors, and leaves the working directory. */
void os_release_caller(void);
struct os_anchor_start {
  const char *run_id, *directory;
  const char *cgroups; /* NULL: none */
  const char *note;
  int connection;
  void *shared; /* from os_map_shared; NULL: none */
  size_t shared_size;
  char *title; /* the memory of argv, where `ps` is to show what the new process is; NULL: none */
  size_t title_size;
  bool warm; /* it waits for its run: os_anchor_title says later that it has one */
};
/* Starts a process that is an anchor: by a fork that calls `body`, or by starting this binary in mode `run`. The connection
 * is passed on and stays open here. Returns its pid, -1 if it was not started. `kept` is for os_anchor_release: on Windows the
 * job of the run, which lives as long as it is open; elsewhere NULL. */
os_pid os_anchor_start(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *start, int connection), void **kept);
/* In an anchor that was started warm: it has a run now. */
void os_anchor_title(const char *run_id);
/* Releases `kept` after the run of the anchor has ended. */
void os_anchor_release(void *kept);
/* In an anchor: the memory that its launcher shares; NULL if there is none. */
void *os_anchor_shared(size_t size);

#endif
