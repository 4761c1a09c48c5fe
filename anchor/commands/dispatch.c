/* Requests of supervisors: which a connection may send, and what each does. */
#include <errno.h>
#include <string.h>

#include "commands/commands.h"
#include "run/end/end.h"

static bool same_key(const char *a, const char *b) {
  size_t n = strlen(b);
  if (strlen(a) != n) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < n; i++) difference |= (unsigned)(a[i] ^ b[i]);
  return difference == 0;
}

/* False: refused, and the connection is closed. */
static bool authenticate(struct run *run, struct connection *connection, const struct frame *frame) {
  char id[sizeof run->id], key[sizeof run->key];
  uint64_t protocol = 0;
  if (!frame_number(frame, T_PROTOCOL, &protocol) || protocol < 1 || protocol > PROTOCOL) {
    refuse(run, connection, "protocol", "this anchor is older than the supervisor; PROTOCOL is its version");
    return false;
  }
  if (!frame_text(frame, T_KEY, key, sizeof key) || !same_key(key, run->key)) {
    refuse(run, connection, "bad-key", "the control key does not match");
    return false;
  }
  if (!frame_text(frame, T_RUN_ID, id, sizeof id) || strcmp(id, run->id) != 0) {
    refuse(run, connection, "wrong-run", "this anchor serves another run");
    return false;
  }
  return true;
}

static bool handle_hello(struct run *run, struct connection *connection, const struct frame *frame) {
  uint64_t epoch = 0;
  if (!authenticate(run, connection, frame)) return false;
  frame_number(frame, T_EPOCH, &epoch);
  if (epoch != 0 && epoch <= run->epoch) {
    refuse(run, connection, "stale-epoch", "a newer owner has attached");
    return false;
  }
  connection->authenticated = true;
  if (epoch != 0) {
    struct connection *former = run->owner;
    run->epoch = epoch;
    run->owner = connection;
    run->owner_lost_at = 0;
    record_owner(run, connection->fd);
    if (former != NULL) connection_drop(run, former);
  }
  send_welcome(run, connection);
  return true;
}

static void handle_stop(struct run *run, struct connection *connection, const struct frame *frame) {
  char reason[sizeof run->stop.reason], actor[sizeof run->stop.actor], request[sizeof run->stop.request];
  uint64_t grace = FOREVER;
  if (!frame_text(frame, T_REASON, reason, sizeof reason) || !frame_text(frame, T_ACTOR, actor, sizeof actor)) {
    refuse(run, connection, "bad-frame", "STOP needs REASON and ACTOR");
    return;
  }
  if (!frame_text(frame, T_REQUEST_ID, request, sizeof request)) request[0] = 0;
  frame_time(frame, T_GRACE_MS, &grace);
  bool first = !run->stop.set;
  request_stop(run, reason, actor, request, grace);
  if (first) return; /* every connection was notified; or the leader had exited by itself, which LEADER reports */
  struct out out = connection_out(connection, F_STOPPING);
  out_stop(run, &out, NULL);
  connection_send(run, connection, &out);
}

static void handle_abandon(struct run *run, struct connection *connection, const struct frame *frame) {
  char actor[sizeof run->abandon.actor], request[sizeof run->abandon.request];
  if (!frame_text(frame, T_ACTOR, actor, sizeof actor)) {
    refuse(run, connection, "bad-frame", "ABANDON needs ACTOR");
    return;
  }
  if (!frame_text(frame, T_REQUEST_ID, request, sizeof request)) request[0] = 0;
  if (!request_abandon(run, actor, request))
    refuse(run, connection, "bad-phase", "no process is known to have survived KILL: stop the run, and abandon it only after survivors were reported");
}

static void handle_policy(struct run *run, const struct frame *frame) {
  uint64_t n, now = os_now_ms();
  const bool was_service = run->policy.service;
  if (frame_time(frame, T_OVERALL_MS, &n)) run->policy.overall = n, run->overall_from = now;
  if (frame_time(frame, T_NO_OUTPUT_MS, &n)) run->policy.no_output = n, run->output_at = now;
  if (frame_time(frame, T_OWNER_LOSS_MS, &n)) run->policy.owner_loss = n;
  if (frame_number(frame, T_KIND, &n)) run->policy.service = n == 1;
  if (frame_number(frame, T_ON_ESCAPE, &n)) run->policy.sweep_escapes = n == 1;
  /* A run that is being stopped gets no more time. */
  if (frame_time(frame, T_GRACE_MS, &n) && (n < run->policy.grace || (!run->stop.set && run->phase < STOPPING))) run->policy.grace = n;
  if (run->policy.service == was_service) return;
  /* The policy is in effect even if the file cannot be written: WELCOME reports the kind. */
  (void)save_anchor_file(run);
  if (run->caller != NULL) send_welcome(run, run->caller); /* a service continues without it */
}

static void handle_go(struct run *run, struct connection *connection) {
  if (run->phase != GATED || run->stop.set) {
    refuse(run, connection, "bad-phase", "no child is waiting at the gate");
    return;
  }
  run->phase = OPENED;
  run->go_at = run->overall_from = run->output_at = os_now_ms();
  os_gate_open(&run->child);
  os_file_prepare(run->dir, "exit.json"); /* while the command starts */
}

static void handle_owner_frame(struct run *run, struct connection *connection, const struct frame *frame) {
  uint64_t a = 0, b = 0;
  if (connection != run->owner && (connection != run->caller || !is_callers_request(frame->type))) {
    refuse(run, connection, "not-owner", "only the newest owner may control the run");
    return;
  }
  switch (frame->type) {
    case F_GO: handle_go(run, connection); return;
    case F_WRITE: {
      struct field field;
      size_t at = 0;
      frame_number(frame, T_OFFSET, &a);
      while (field_next(frame, &at, &field) > 0)
        if (field.tag == T_DATA) {
          input_accept(run, connection, a, field.data, field.length); /* may drop the connection, and with it the frame */
          return;
        }
      return;
    }
    case F_CLOSE_STDIN:
      if (frame_number(frame, T_OFFSET, &a)) input_close_at(run, a);
      return;
    case F_RESIZE:
      if (frame_number(frame, T_ROWS, &a) && frame_number(frame, T_COLS, &b)) input_resize(run, a, b);
      return;
    case F_ACK:
      if (frame_number(frame, T_STREAM, &a) && (a == 1 || a == 2) && frame_number(frame, T_OFFSET, &b))
        spool_ack(&run->streams[a - 1].spool, b);
      return;
    case F_POLICY: handle_policy(run, frame); return;
    case F_ADOPT: handle_adopt(run, connection, frame); return;
    case F_SIGNAL: handle_signal(run, connection, frame); return;
    default: run->output_at = os_now_ms(); return; /* HEARTBEAT */
  }
}

static bool handle_frame(struct run *run, struct connection *connection, const struct frame *frame) {
  if (!frame_well_formed(frame)) return false;
  if (!connection->authenticated && frame->type == F_CALLER) {
    if (!authenticate(run, connection, frame)) return false;
    handle_caller(run, connection);
    return true;
  }
  if (!connection->authenticated) return frame->type == F_HELLO && handle_hello(run, connection, frame);
  switch (frame->type) {
    case F_STOP: handle_stop(run, connection, frame); break;
    case F_STATUS: send_welcome(run, connection); break;
    case F_ABANDON: handle_abandon(run, connection, frame); break;
    case F_MEMBERS: handle_members(run, connection, frame); break;
    case F_GO: case F_WRITE: case F_CLOSE_STDIN: case F_RESIZE: case F_ACK: case F_POLICY: case F_HEARTBEAT: case F_ADOPT:
    case F_SIGNAL:
      handle_owner_frame(run, connection, frame);
      break;
    default: refuse(run, connection, "unknown-frame", "this anchor does not support this frame");
  }
  return true;
}

bool connection_read(struct run *run, struct connection *connection) {
  if (connection->in == NULL) connection->in = os_map(connection->in_size);
  if (connection->in == NULL) return false;
  long n = os_read(connection->fd, connection->in + connection->in_used, connection->in_size - connection->in_used);
  if (n < 0) return errno == EAGAIN;
  if (n == 0) return false;
  connection->in_used += (size_t)n;
  size_t at = 0;
  for (;;) {
    struct frame frame;
    long taken = frame_take(connection->in + at, connection->in_used - at, FRAME_MAX, &frame);
    if (taken < 0) return false;
    if (taken == 0) break;
    if (!handle_frame(run, connection, &frame)) return false;
    if (connection->fd < 0) return true; /* dropped meanwhile, because it did not read its answers */
    at += (size_t)taken;
  }
  connection->in_used -= at;
  memmove(connection->in, connection->in + at, connection->in_used);
  return true;
}
