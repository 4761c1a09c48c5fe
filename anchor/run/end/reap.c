/* Reaps ended processes, and sees the leader's end. */
#include "commands/commands.h"
#include "run/end/end.h"

#define REAP_ROUND 4096 /* limited, so that reaping does not starve connections and output */

static void out_leader(struct run *run, struct out *out, const void *unused) {
  (void)unused;
  if (run->leader_code >= 0) out_number(out, T_CODE, (uint64_t)run->leader_code);
  else out_number(out, T_SIGNAL, (uint64_t)run->leader_signal);
}

static void on_leader_exit(struct run *run) {
  if (run->warm) close_gate(run);
  run->leader_done = true;
  run->settle_at = os_now_ms() + run->policy.settle;
  if (run->phase < SETTLING) run->phase = SETTLING;
}

static void record_leader_exit(struct run *run, const struct os_ended *ended) {
  if (run->child.status >= 0) read_status(run); /* its reports come before its exit */
  on_leader_exit(run);
  run->leader_code = ended->code;
  run->leader_signal = ended->code < 0 ? ended->signal : -1;
  if (run->started_at != 0) send_to_all(run, F_LEADER, out_leader, NULL);
}

static void account(struct run *run, const struct os_ended *ended) {
  run->reaped++;
  run->cpu_ms += ended->cpu_ms;
  if (ended->peak_kb > run->peak_kb) run->peak_kb = ended->peak_kb;
}

/* Finds the run of a process: the run whose leader or known member it is, else the run that the anchor was started
 * for. */
static struct run *run_of(os_pid pid) {
  struct run *otherwise = NULL;
  for (struct run *each = runs; each < runs + RUNS_MAX; each++) {
    if (!each->active && !each->abandoned) continue;
    if (each->active && each->child.id.pid == pid && !each->leader_done) return each;
    for (long i = 0; i < each->known_count; i++)
      if (each->known[i].pid == pid) return each;
    if (otherwise == NULL && each->active) otherwise = each;
  }
  return otherwise;
}

/* Returns true if no process is left below the anchor; otherwise there may be more zombies. */
static bool reap_some_zombies(void) {
  struct os_ended ended;
  for (struct run *each = runs; each < runs + RUNS_MAX; each++)
    if (each->active && each->leader_zombie) return true; /* it was the last process, and stays a zombie */
  for (int i = 0; i < REAP_ROUND; i++) {
    int found = os_next_ended(&ended);
    if (found <= 0) return found < 0;
    struct run *run = run_of(ended.pid);
    run->more_to_reap = i == REAP_ROUND - 1;
    if (run->active && ended.pid == run->child.id.pid && !run->leader_done) {
      record_leader_exit(run, &ended);
      if (os_only_child(ended.pid)) {
        /* No other process is left. The leader stays a zombie until the exit file is written, mostly in this loop. */
        run->leader_zombie = true;
        account(run, &ended);
        return true;
      }
      save_leader_file(run);
    }
    account(run, &ended);
    os_reap(ended.pid);
  }
  return false;
}

void reap_zombies(void) {
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) run->more_to_reap = false;
  bool nobody = reap_some_zombies();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++)
    if (run->active && nobody && may_ask_emptiness(run)) take_emptiness(run, os_boundary_emptiness(&run->boundary));
}

/* The leader's parent has reaped it, so its exit status is unknown here. */
static void on_leader_exit_elsewhere(struct run *run) {
  run->leader_gone = false;
  if (run->leader_handle >= 0) os_close(run->leader_handle);
  run->leader_handle = -1;
  if (!run->leader_done) on_leader_exit(run);
}

void reap_children(void) {
  reap_zombies();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) {
    if (!run->active) continue;
    if (run->leader_gone) on_leader_exit_elsewhere(run);
    if (!is_only_run(run) && !run->empty && run->phase >= SETTLING && may_ask_emptiness(run)) take_emptiness(run, tree_emptiness(run));
  }
}
