/* Abandon: on an operator's request, a run ends although processes of it survived KILL. */
#include <stdio.h>

#include "run/end/end.h"
#include "os/kill-tree.h"

bool request_abandon(struct run *run, const char *actor, const char *request) {
  if (!run->reported || run->empty) return false;
  if (run->abandon.asked) return true; /* the first request is being carried out */
  run->abandon.asked = true;
  snprintf(run->abandon.actor, sizeof run->abandon.actor, "%s", actor);
  snprintf(run->abandon.request, sizeof run->abandon.request, "%s", request);
  return true;
}

void abandon_survivors(struct run *run, uint64_t now) {
  if (!is_only_run(run)) take_emptiness(run, tree_emptiness(run));
  long count = collect(run, 0);
  run->abandon.asked = !run->empty;
  if (!run->empty) {
    run->phase = ABANDONED;
    run->residue_count = 0;
    count = count_unlisted(run, count);
    for (long i = 0; i < count; i++)
      if (!tree_dead(&members[i])) record_residue(run, &members[i], why_alive(run, &members[i]), true);
    if (run->known == NULL) run->known = os_map(KNOWN_SIZE);
    if (run->known != NULL) save_members(run, count);
    streams_drain(run, now);
  }
  tree_release(count);
}
