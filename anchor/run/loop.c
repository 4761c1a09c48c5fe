/* `anchor run`: one anchor, its run, and services adopted out of it: main loop. */
#include <stdatomic.h>
#include <string.h>

#include "commands/commands.h"
#include "modes/modes.h"
#include "run/end/end.h"
#include "run/run.h"

#define CHECK_FIRST_MS 5000

struct run runs[RUNS_MAX];
const char *cgroups_of_runs;
static struct heartbeat *own_heartbeat; /* NULL if no launcher shares it */

int runs_active(void) {
  int count = 0;
  for (int i = 0; i < RUNS_MAX; i++) count += runs[i].active;
  return count;
}

static void read_stop_requests(int events) {
  char actor[64];
  while (os_next_stop_request(events, actor, sizeof actor))
    for (struct run *run = runs; run < runs + RUNS_MAX; run++)
      if (run->active) request_stop(run, "manual-cancel", actor, "", FOREVER);
}

enum { P_LISTENER, P_STATUS, P_OUT, P_ERR, P_IN, P_BOUNDARY, P_LEADER, P_CONNECTIONS, P_COUNT = P_CONNECTIONS + CONNECTIONS };

static void build_pollset(struct run *run, struct os_poll *p) {
  for (int i = 0; i < P_COUNT; i++) p[i] = (struct os_poll){.fd = -1};
  p[P_LEADER] = (struct os_poll){.fd = run->leader_handle, .wants = OS_READ};
  if (run->accept_at == 0 && !run->warm) p[P_LISTENER] = (struct os_poll){.fd = run->listener, .wants = OS_READ};
  p[P_STATUS] = (struct os_poll){.fd = run->child.status, .wants = OS_READ};
  for (int i = 0; i < 2; i++)
    if (stream_wants_read(&run->streams[i])) p[P_OUT + i] = (struct os_poll){.fd = run->streams[i].fd, .wants = OS_READ};
  /* OS_GONE is reported even if nothing is wanted: the last reader of the pipe is gone. */
  if (run->started_at != 0 && (!run->pty || input_wants_write(run)))
    p[P_IN] = (struct os_poll){.fd = run->input.fd, .wants = input_wants_write(run) ? OS_WRITE : 0};
  if (run->phase >= SETTLING) p[P_BOUNDARY] = (struct os_poll){.fd = run->boundary_events, .wants = OS_PRIORITY};
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    /* Until the child is at the gate, requests of the owner wait in its socket; its hang-up is still seen. */
    short listen = run->phase != STARTING || c != run->owner ? OS_READ : 0;
    p[P_CONNECTIONS + i] = (struct os_poll){.fd = c->fd, .wants = (short)(listen | (backlogged(c) ? OS_WRITE : 0))};
  }
}

/* Handles the input of one run. The order matters: output and reports of the child come before new requests. */
static void dispatch(struct run *run, const struct os_poll *p) {
  if (p[P_STATUS].ready != 0) read_status(run);
  for (int i = 0; i < 2; i++)
    if (p[P_OUT + i].ready != 0) stream_read(run, &run->streams[i]);
  if ((p[P_IN].ready & OS_GONE) != 0 && !run->pty) input_reader_gone(run);
  else if ((p[P_IN].ready & OS_WRITE) != 0) input_write(run);
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    short ready = p[P_CONNECTIONS + i].ready;
    if (c->fd < 0 || c->fd != p[P_CONNECTIONS + i].fd) continue;
    if ((ready & OS_WRITE) != 0) connection_flush(c);
    if ((ready & (OS_READ | OS_GONE)) == 0) continue;
    if (run->warm) take_start(run);
    else if (!connection_read(run, c)) connection_drop(run, c);
  }
  if (p[P_LISTENER].ready != 0) connections_accept(run, os_now_ms());
  if (p[P_BOUNDARY].ready != 0) os_boundary_events_read(run->boundary_events);
  if (p[P_LEADER].ready != 0) run->leader_gone = true;
}

/* The launcher may read after any of these stores: the id is set last, so that an entry with an id is complete. */
static void publish_run(struct run *run, struct heartbeat_run *out) {
  bool due = run->active && (run->phase == OPENED || run->phase == RUNNING) && !run->stop.set;
  const struct policy *policy = &run->policy;
  out->overall_at = due && policy->overall > 0 ? run->overall_from + policy->overall : 0;
  out->no_output_at = due && policy->no_output > 0 && run->withheld_since == 0 ? run->output_at + policy->no_output : 0;
  out->owner_loss = due && !policy->service ? policy->owner_loss : 0;
  out->owner_lost_at = run->owner == NULL && run->caller == NULL ? run->owner_lost_at : 0;
  out->grace = policy->grace;
  if (out->owned != (run->owner != NULL) || out->owner.unique != run->owner_process.unique || out->owner.pid != run->owner_process.pid) {
    out->owned = true; /* an owner with pid 0 is never considered dead */
    out->owner.pid = 0;
    atomic_signal_fence(memory_order_seq_cst);
    out->owner.start = run->owner_process.start;
    out->owner.unique = run->owner_process.unique;
    atomic_signal_fence(memory_order_seq_cst);
    out->owner.pid = run->owner_process.pid;
    out->owned = run->owner != NULL;
  }
  if (run->stop.set && out->stop_at == 0) {
    memcpy(out->reason, run->stop.reason, sizeof out->reason);
    memcpy(out->actor, run->stop.actor, sizeof out->actor);
    memcpy(out->request, run->stop.request, sizeof out->request);
    atomic_signal_fence(memory_order_seq_cst);
    out->stop_at = run->stop_at;
  }
}

void publish_heartbeat(void) {
  if (own_heartbeat == NULL) return;
  for (int i = 0; i < RUNS_MAX; i++) {
    struct heartbeat_run *out = &own_heartbeat->runs[i];
    struct run *run = &runs[i];
    bool served = run->active && !run->warm && (run->child.id.start != 0 || run->child.id.unique != 0); /* the leader is known */
    if (out->id[0] != 0 && (!served || strcmp(out->id, run->id) != 0)) {
      out->id[0] = 0;
      atomic_signal_fence(memory_order_seq_cst);
      memset(out, 0, sizeof *out);
    }
    if (!served) continue;
    publish_run(run, out);
    if (out->id[0] != 0) continue;
    out->root = run->child.id;
    memcpy(out->id + 1, run->id + 1, sizeof out->id - 1);
    atomic_signal_fence(memory_order_seq_cst);
    out->id[0] = run->id[0];
  }
  own_heartbeat->beat = os_now_ms();
}

/* One iteration. Output is handled before deaths. A run that is adopted in it is polled in the next one. */
static void loop_once(int events) {
  static struct os_poll p[1 + RUNS_MAX * P_COUNT];
  _Static_assert(1 + RUNS_MAX * P_COUNT <= POLL_MAX, "the set fits into one poll");
  struct os_poll *of[RUNS_MAX] = {NULL};
  uint64_t wait = 60000, now = os_now_ms();
  size_t count = 1;
  p[0] = (struct os_poll){.fd = events, .wants = OS_READ};
  for (int i = 0; i < RUNS_MAX; i++) {
    if (!runs[i].active) continue;
    of[i] = p + count;
    build_pollset(&runs[i], of[i]);
    count += P_COUNT;
    uint64_t due = next_deadline(&runs[i], now);
    if (due < wait) wait = due;
  }
  publish_heartbeat();
  os_poll(p, count, (int)wait);
  bool died = p[0].ready != 0;
  for (int i = 0; i < RUNS_MAX; i++) {
    if (of[i] == NULL) continue;
    struct run *run = &runs[i];
    dispatch(run, of[i]);
    died |= of[i][P_BOUNDARY].ready != 0 || run->leader_gone || run->phase == STOPPING || run->phase == SWEEPING || run->more_to_reap;
  }
  if (p[0].ready != 0) read_stop_requests(events);
  if (died) reap_children();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) {
    if (!run->active) continue;
    now = os_now_ms();
    streams_settle(run, now);
    step(run, now);
    if (run->active) connections_flush(run);
  }
}

void init_run(struct run *run) {
  *run = (struct run){.active = true, .dir = -1, .listener = -1, .boundary = {.cgroup = -1}, .boundary_events = -1,
                      .leader_code = -1, .leader_signal = -1, .leader_handle = -1, .kill_mode = "none"};
  for (int i = 0; i < CONNECTIONS; i++) run->connections[i].fd = -1;
}

int run_mode(const char *run_id, const char *instance_dir, int fd, const char *cgroups, const char *note, bool launched) {
  int events = os_events_open();
  int connection = os_take_connection(fd);
  if (events < 0 || !os_become_reaper() || connection < 0) return ANCHOR_NOT_STARTED;
  if (!launched) os_harden_self(); /* otherwise the launcher has done so */
  struct run *run = runs;
  init_run(run);
  run->launcher = launched ? os_parent() : 0;
  cgroups_of_runs = cgroups;
  own_heartbeat = os_anchor_shared(sizeof *own_heartbeat);
  if (!os_identity(os_own_pid(), &run->anchor)) return ANCHOR_NOT_STARTED;
  prepare_run(run, connection, run_id, instance_dir, cgroups, note);
  run->boundary_events = os_boundary_events(&run->boundary);
  run->check_at = os_now_ms() + CHECK_FIRST_MS;
  for (;;) loop_once(events);
}
