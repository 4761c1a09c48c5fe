/* The deadlines of a run's phases, in one table: it decides which action is due, and how long the loop may wait. */
#include "run/end/end.h"
#include "run/run.h"

#define REAP_BACKOFF_MS 100
#define AT_ONCE 0

static uint64_t later(uint64_t one, uint64_t other) { return one > other ? one : other; }

/* A live owner acts first. */
static uint64_t slack(const struct run *run) { return run->owner != NULL ? run->policy.backstop : 0; }

/* ---- when; FOREVER: not in this state ---- */

static uint64_t refresh_due(const struct run *run) { return run->adopted ? run->refresh_at : FOREVER; }

static uint64_t check_due(const struct run *run) { return run->check_at; }

static uint64_t accept_due(const struct run *run) { return run->accept_at != 0 ? run->accept_at : FOREVER; }

static uint64_t reap_due(const struct run *run) { return run->more_to_reap ? AT_ONCE : FOREVER; }

static uint64_t no_go_due(const struct run *run) { return run->stop.set || run->owner == NULL ? AT_ONCE : FOREVER; }

static uint64_t hang_due(const struct run *run) { return run->empty ? FOREVER : run->gate_closed_at + run->policy.settle; }

static uint64_t overall_due(const struct run *run) {
  return run->stop.set || run->policy.overall == 0 ? FOREVER : run->overall_from + run->policy.overall + slack(run);
}

/* Time during which the anchor does not read is not silence. */
static uint64_t no_output_due(const struct run *run) {
  if (run->stop.set || run->policy.no_output == 0 || run->withheld_since != 0) return FOREVER;
  return run->output_at + run->policy.no_output + slack(run);
}

static uint64_t owner_loss_due(const struct run *run) {
  /* A caller that is connected here needs no owner: its run ends with it. */
  if (run->stop.set || run->owner != NULL || run->caller != NULL || run->policy.service) return FOREVER;
  return run->owner_lost_at + run->policy.owner_loss;
}

/* With the gate closed the child exits by itself. */
static uint64_t stop_due(const struct run *run) {
  return run->stop.set && run->gate_closed_at == 0 && !run->empty ? AT_ONCE : FOREVER;
}

static uint64_t settle_due(const struct run *run) { return run->empty ? FOREVER : run->settle_at; }

static uint64_t abandon_due(const struct run *run) { return run->abandon.asked && !run->empty ? AT_ONCE : FOREVER; }

/* Zombies are reaped before the next count, but they cannot delay it for long. */
static uint64_t sweep_due(const struct run *run) {
  return run->empty ? FOREVER : later(run->kill_at, run->sweep_at + (run->more_to_reap ? REAP_BACKOFF_MS : 0));
}

static uint64_t ask_due(const struct run *run) { return run->empty || run->unseen_since == 0 ? FOREVER : run->ask_at; }

static uint64_t empty_due(const struct run *run) { return run->empty && run->leader_done ? AT_ONCE : FOREVER; }

static uint64_t refill_due(const struct run *run) { return run->empty ? FOREVER : AT_ONCE; }

static uint64_t end_due(const struct run *run) { return later(run->save_at, streams_ended(run) ? AT_ONCE : run->drain_until); }

static uint64_t save_due(const struct run *run) { return run->save_at; }

/* ---- what ---- */

static void accept_again(struct run *run, uint64_t now) {
  (void)now;
  run->accept_at = 0;
}

static void give_up_start(struct run *run, uint64_t now) {
  (void)now;
  close_gate(run);
}

/* A child that hangs before the gate needs no grace period. */
static void end_hanging_child(struct run *run, uint64_t now) {
  run->policy.grace = 0;
  begin_termination(run, now);
}

static void time_out(struct run *run, uint64_t now) {
  (void)now;
  request_stop(run, "overall-timeout", "anchor", "", FOREVER);
}

static void time_out_silence(struct run *run, uint64_t now) {
  (void)now;
  request_stop(run, "no-output-timeout", "anchor", "", FOREVER);
}

static void lose_owner(struct run *run, uint64_t now) {
  (void)now;
  request_stop(run, "owner-lost", "anchor", "", FOREVER);
}

static void begin_drain(struct run *run, uint64_t now) {
  run->phase = DRAINING;
  if (run->drain_until == 0) {
    run->drain_until = now + run->policy.drain;
    streams_drain(run, now);
  }
  if (!streams_ended(run)) save_leader_file(run);
}

/* A process was moved into the boundary from outside. */
static void end_again(struct run *run, uint64_t now) {
  (void)now;
  run->phase = run->kill_at != 0 ? STOPPING : SETTLING;
}

#define IN(phase) (1u << (phase))
#define ALL_PHASES (~0u)
#define BEFORE_GO (IN(STARTING) | IN(WARM) | IN(GATED))
#define AFTER_GO (IN(OPENED) | IN(RUNNING))
#define ENDING (IN(SETTLING) | IN(STOPPING) | IN(SWEEPING))
#define ENDED (IN(DRAINING) | IN(SAVING))

/* In the order in which they are done within a step. Each action moves its time, or changes the phase. No action: the
 * loop does it in every turn, and only has to wake. */
static const struct deadline {
  unsigned phases;
  uint64_t (*due)(const struct run *run);
  void (*act)(struct run *run, uint64_t now);
} deadlines[] = {
    {ALL_PHASES, reap_due, NULL},
    {ALL_PHASES, streams_due, NULL},
    {ALL_PHASES, accept_due, accept_again},
    {ALL_PHASES, refresh_due, refresh_members},
    {ALL_PHASES, check_due, check_socket_and_directory},
    {BEFORE_GO, no_go_due, give_up_start},
    {IN(CLOSED), hang_due, end_hanging_child},
    {AFTER_GO, overall_due, time_out},
    {AFTER_GO, no_output_due, time_out_silence},
    {AFTER_GO, owner_loss_due, lose_owner},
    {AFTER_GO | IN(SETTLING), stop_due, begin_termination},
    {IN(SETTLING), settle_due, begin_termination},
    {ENDING, abandon_due, abandon_survivors},
    {IN(STOPPING) | IN(SWEEPING), sweep_due, sweep},
    {ENDING, ask_due, check_emptiness},
    {ENDING, empty_due, begin_drain},
    {ENDED, refill_due, end_again},
    {ENDED, end_due, write_end},
    {IN(ABANDONED), save_due, write_end},
};

#define DEADLINES (sizeof deadlines / sizeof *deadlines)

static uint64_t due_at(const struct run *run, const struct deadline *deadline) {
  return (deadline->phases & IN(run->phase)) != 0 ? deadline->due(run) : FOREVER;
}

void step(struct run *run, uint64_t now) {
  for (const struct deadline *each = deadlines; each < deadlines + DEADLINES && run->active; each++)
    if (each->act != NULL && due_at(run, each) <= now) each->act(run, now);
}

uint64_t next_deadline(const struct run *run, uint64_t now) {
  uint64_t at = FOREVER;
  for (const struct deadline *each = deadlines; each < deadlines + DEADLINES; each++) {
    uint64_t due = due_at(run, each);
    if (due < at) at = due;
  }
  return at <= now ? 0 : at - now;
}
