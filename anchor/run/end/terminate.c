/* Termination is TERM (then CONT), the grace period, then KILL in sweeps until the tree is empty. The death of the
 * leader does not end it. If a process cannot be killed, the anchor reports it, stays, and tries again. */
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "run/end/end.h"
#include "os/kill-tree.h"

#define SWEEP_FIRST_MS 10
#define SWEEP_MOST_MS 1000
#define DYING_MOST_MS 500

void save_stop(struct run *run) {
  char text[4096];
  struct json json = {.data = text, .size = sizeof text};
  json_key_string(&json, "{\"reason\":", run->stop.reason);
  json_key_string(&json, ",\"actor\":", run->stop.actor);
  json_key_string(&json, ",\"requestId\":", run->stop.request);
  json_raw(&json, "}\n");
  json_save(run->dir, "stop.json", &json); /* failure is ignored: a full disk must not prevent the stop */
}

void request_stop(struct run *run, const char *reason, const char *actor, const char *request, uint64_t grace) {
  uint64_t now = os_now_ms();
  if (grace < run->policy.grace) run->policy.grace = grace;
  if (run->phase == STOPPING && now + run->policy.grace < run->kill_at) {
    run->kill_at = run->sweep_at = now + run->policy.grace;
    run->report_at = run->kill_at + run->policy.kill_report;
  }
  if (run->stop.set || run->leader_done) return; /* the first reason wins; an exit of the leader is one */
  run->stop.set = true;
  run->stop_at = now;
  snprintf(run->stop.reason, sizeof run->stop.reason, "%s", reason);
  snprintf(run->stop.actor, sizeof run->stop.actor, "%s", actor);
  snprintf(run->stop.request, sizeof run->stop.request, "%s", request);
  save_stop(run);
  send_to_all(run, F_STOPPING, out_stop, NULL);
}

void begin_termination(struct run *run, uint64_t now) {
  run->phase = STOPPING;
  os_raise_priority(true);
  run->kill_at = now + run->policy.grace;
  run->sweep_at = run->kill_at;
  run->report_at = run->kill_at + run->policy.kill_report;
  if (run->policy.grace == 0 && !run->leader_done) return; /* the sweep follows in this step, and looks at every process first */
  long count = collect(run, 0);
  if (run->leader_done && !run->stop.set) record_leader_residue(run, count);
  count_cleaned(run, count);
  if (run->policy.grace > 0 && os_request_end(members, count) > 0) run->kill_mode = "pid";
  tree_release(count);
}

/* True while the processes that the kernel killed together are still ending: finding the rest of them one by one would take
 * longer than their end. For a limited time, because processes outside the cgroup may end and appear all the time. */
static bool still_dying(const struct run *run, uint64_t now) {
  return run->phase == SWEEPING && run->killed_whole && run->reaped != run->reaped_before && now < run->kill_at + DYING_MOST_MS;
}

static long collect_again(void *run, int signal) { return collect(run, signal); }

void sweep(struct run *run, uint64_t now) {
  const bool first = run->phase == STOPPING;
  if (still_dying(run, now)) {
    run->reaped_before = run->reaped;
    run->sweep_at = now + SWEEP_FIRST_MS;
    return;
  }
  run->phase = SWEEPING;
  if (first || (run->leader_done && run->residue_count == 0)) {
    long left = collect(run, 0);
    if (run->leader_done) record_leader_residue(run, left);
    count_cleaned(run, left);
    tree_release(left);
  }
  bool whole = os_boundary_kill(&run->boundary);
  run->killed_whole |= whole;
  if (whole) run->kill_mode = os_boundary_kind(&run->boundary);
  if (!whole || !first) { /* one by one without a cgroup, and for processes that left it */
    long count = tree_kill(collect_again, run);
    if (count > 0 && strcmp(run->kill_mode, "none") == 0) run->kill_mode = "pid";
    if (now >= run->report_at) report_survivors(run, count);
    tree_release(count);
  }
  if (now >= run->report_at) run->report_at = now + run->policy.kill_report;
  if (run->reaped != run->reaped_before) run->sweeps = 0; /* processes still die or appear: sweep again soon */
  run->reaped_before = run->reaped;
  uint64_t wait = (uint64_t)SWEEP_FIRST_MS << (run->sweeps < 7 ? run->sweeps : 7);
  run->sweep_at = now + (wait < SWEEP_MOST_MS ? wait : SWEEP_MOST_MS);
  run->sweeps++;
}
