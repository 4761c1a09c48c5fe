/* What a run does when, and how long the loop may wait. */
#include "run.h"

#define REAP_BACKOFF_MS 100

static bool deadline_passed(struct run *run, uint64_t from, uint64_t limit, uint64_t now) {
  uint64_t slack = run->owner != NULL ? run->policy.backstop : 0; /* a live owner acts first */
  return limit > 0 && now >= from + limit + slack;
}

void step_deadlines(struct run *run, uint64_t now) {
  if (run->adopted && now >= run->refresh_at) refresh_members(run, now);
  if (now >= run->check_at) check_socket_and_directory(run, now);
  if (run->abandon.done || (run->abandon.asked && !run->empty)) {
    abandon_survivors(run, now);
    return;
  }
  if (run->stop.set || run->owner == NULL) close_gate(run);
  if ((run->phase == RUNNING || run->gate_used) && !run->stop.set && !run->leader_done) {
    if (deadline_passed(run, run->overall_from, run->policy.overall, now)) request_stop(run, "overall-timeout", "anchor", "", FOREVER);
    else if (run->withheld_since == 0 && deadline_passed(run, run->output_at, run->policy.no_output, now))
      request_stop(run, "no-output-timeout", "anchor", "", FOREVER);
    else if (run->owner == NULL && !run->policy.service && now >= run->owner_lost_at + run->policy.owner_loss)
      request_stop(run, "owner-lost", "anchor", "", FOREVER);
  }
  /* With the gate closed the child exits by itself. A child that hangs before the gate needs no grace period. */
  bool hangs = run->gate_closed_at != 0 && now >= run->gate_closed_at + run->policy.settle;
  if (hangs) run->policy.grace = 0;
  bool due_to_stop = run->stop.set && run->gate_closed_at == 0;
  bool due_to_rest = run->leader_done && now >= run->settle_at;
  if (!run->empty && !run->terminating && (due_to_stop || due_to_rest || hangs)) begin_termination(run, now);
  /* Zombies are reaped before the next count, but they cannot delay it for long. */
  bool due = run->terminating && now >= run->kill_at && now >= run->sweep_at + (run->more_to_reap ? REAP_BACKOFF_MS : 0);
  if (!run->empty && due) sweep(run, now);
  if (!run->empty || !run->leader_done) return;
  if (run->drain_until == 0) {
    run->drain_until = now + run->policy.drain;
    streams_drain(run, now);
  }
  if ((streams_ended(run) || now >= run->drain_until) && now >= run->save_at) write_end(run, now);
  else save_leader_file(run); /* the drain takes time: if the anchor dies meanwhile, the status is known */
}

static void min_deadline(uint64_t *deadline, uint64_t at) {
  if (at < *deadline) *deadline = at;
}

uint64_t next_deadline(struct run *run, uint64_t now) {
  if (run->abandon.done && run->save_at > now) return run->save_at - now;
  if (run->more_to_reap || (run->abandon.asked && !run->empty)) return 0;
  uint64_t at = run->adopted && run->refresh_at < run->check_at ? run->refresh_at : run->check_at, slack = run->owner != NULL ? run->policy.backstop : 0;
  if ((run->phase == RUNNING || run->gate_used) && !run->stop.set && !run->leader_done) {
    if (run->policy.overall > 0) min_deadline(&at, run->overall_from + run->policy.overall + slack);
    if (run->policy.no_output > 0 && run->withheld_since == 0) min_deadline(&at, run->output_at + run->policy.no_output + slack);
    if (run->owner == NULL && !run->policy.service) min_deadline(&at, run->owner_lost_at + run->policy.owner_loss);
  }
  if (run->leader_done && !run->empty && !run->terminating) min_deadline(&at, run->settle_at);
  if (run->gate_closed_at != 0 && !run->empty && !run->terminating) min_deadline(&at, run->gate_closed_at + run->policy.settle);
  if (run->terminating && !run->empty) min_deadline(&at, run->sweep_at > run->kill_at ? run->sweep_at : run->kill_at);
  if (run->empty && run->leader_done) min_deadline(&at, run->save_at > 0 ? run->save_at : run->drain_until);
  if (run->accept_at > now) min_deadline(&at, run->accept_at);
  for (int i = 0; i < 2; i++) {
    bool heard = run->owner == NULL || !backlogged(run->owner);
    if (run->streams[i].dirty && heard) min_deadline(&at, run->streams[i].sent_at + 2);
    if (run->streams[i].held_used > 0) min_deadline(&at, run->streams[i].retry_at);
  }
  return at <= now ? 0 : at - now;
}
