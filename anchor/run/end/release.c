/* Releases what an ended run has. */
#include <stdio.h>
#include <stdlib.h>

#include "commands/commands.h"
#include "run/end/end.h"

static void release_run(struct run *run) {
  os_boundary_remove(&run->boundary);
  if (run->known != NULL) os_unmap(run->known, KNOWN_SIZE);
  run->known_count = 0;
  run->abandoned = false;
}

void release_abandoned_runs(bool leaving) {
  for (struct run *each = runs; each < runs + RUNS_MAX; each++) {
    if (!each->abandoned) continue;
    bool left = !leaving && os_boundary_emptiness(&each->boundary) < UNPROVEN;
    for (long i = 0; !leaving && i < each->known_count && !left; i++) left = is_known(each, each->known[i].pid);
    if (!left) release_run(each);
  }
}

void finish_run(struct run *run) {
  char path[PATH_SIZE + 8];
  snprintf(path, sizeof path, "%s/sock", run->directory);
  os_path_remove(path);
  run->active = false;
  run->abandoned = run->phase == ABANDONED;
  if (!run->abandoned) release_run(run);
  if (runs_active() == 0) {
    release_abandoned_runs(true);
    exit(0);
  }
  for (int i = 0; i < CONNECTIONS; i++) connection_drop(run, &run->connections[i]);
  int ends[] = {run->listener, run->dir, run->boundary_events, run->leader_handle, run->pty ? run->child.out : run->input.fd};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends[i] >= 0) os_close(ends[i]);
  streams_free(run);
}
