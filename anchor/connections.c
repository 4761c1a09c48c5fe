/* Connections of supervisors: which requests they may send, and what they are sent. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OUT_SIZE (64u * 1024)
#define HELLO_TIMEOUT_MS 10000
#define ACCEPT_RETRY_MS 100
#define BACKLOG 8

/* ---- sending ---- */

/* True if the peer has not read all earlier messages. */
bool backlogged(const struct connection *connection) { return connection->out_used > connection->out_sent; }

/* On a dropped connection everything is a no-op, because nothing fits into no memory. A connection without memory is
 * dropped. */
struct out connection_out(struct connection *connection, uint8_t type) {
  if (connection->fd < 0) return (struct out){.overflow = true};
  if (connection->out == NULL) connection->out = os_map(OUT_SIZE);
  if (connection->out == NULL) return (struct out){.overflow = true};
  struct out out = {.data = connection->out, .size = OUT_SIZE, .used = connection->out_used};
  out_begin(&out, type);
  return out;
}

void connection_flush(struct connection *connection) {
  while (connection->fd >= 0 && connection->out_sent < connection->out_used) {
    long n = os_write(connection->fd, connection->out + connection->out_sent, connection->out_used - connection->out_sent);
    if (n > 0) connection->out_sent += (size_t)n;
    else if (n < 0 && errno == EAGAIN) return;
    else break; /* the reader will see the end of the connection */
  }
  connection->out_used = connection->out_sent = 0;
}

void connection_send(struct run *run, struct connection *connection, struct out *out) {
  if (connection->fd < 0) return;
  if (!out_end(out)) {
    connection_drop(run, connection); /* the peer does not read: it can reconnect and ask */
    return;
  }
  connection->out_used = out->used;
  connection_flush(connection);
}

void send_to_all(struct run *run, uint8_t type, void (*fill)(struct run *, struct out *, const void *), const void *data) {
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *connection = &run->connections[i];
    if (connection->fd < 0 || !connection->authenticated) continue;
    if (type == F_SURVIVORS && backlogged(connection)) continue; /* repeated anyway */
    if (type == F_EXITED && run->end_sent && connection == run->owner) continue; /* the owner already got it */
    struct out out = connection_out(connection, type);
    fill(run, &out, data);
    connection_send(run, connection, &out);
  }
}

void out_stop(struct run *run, struct out *out, const void *unused) {
  (void)unused;
  out_text(out, T_REASON, run->stop.reason);
  out_text(out, T_ACTOR, run->stop.actor);
  out_text(out, T_REQUEST_ID, run->stop.request);
}

void refuse(struct run *run, struct connection *connection, const char *code, const char *message) {
  struct out out = connection_out(connection, F_REFUSED);
  out_text(&out, T_CODE_NAME, code);
  out_text(&out, T_MESSAGE, message);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_number(&out, T_EPOCH, run->epoch);
  connection_send(run, connection, &out);
}

void send_failed(struct run *run, struct connection *connection, enum step step, int error) {
  struct out out = connection_out(connection, F_FAILED);
  out_number(&out, T_ERRNO, (uint64_t)error);
  out_text(&out, T_STEP, step_names[step]);
  out_text(&out, T_MESSAGE, step == STEP_LIMIT && run->limit_note[0] != 0 ? run->limit_note : strerror(error));
  connection_send(run, connection, &out);
}

const char *tier(struct run *run) {
  static char text[64];
  if (run->launcher != 0 && os_parent() != run->launcher) { /* a weaker guarantee is always reported */
    run->launcher = 0;
    snprintf(run->boundary.note, sizeof run->boundary.note, "the launcher died; no process supervises this anchor");
  }
  snprintf(text, sizeof text, "%s%s+%s", run->boundary.path[0] != 0 ? "cgroup" : "subreaper", run->launcher != 0 ? "+launcher" : "",
           os_strength());
  return text;
}

static void out_stream(struct out *out, const struct stream *stream, uint8_t start, uint8_t closed, uint8_t withheld) {
  out_number(out, start, stream->spool.start);
  out_number(out, (uint8_t)(start + 1), stream->spool.end);
  out_number(out, (uint8_t)(start + 2), stream->spool.acked);
  out_number(out, (uint8_t)(start + 3), stream->spool.dropped);
  if (stream->fd < 0 && stream->held_used == 0) out_number(out, closed, 1);
  if (stream->withheld) out_number(out, withheld, 1);
}

void send_welcome(struct run *run, struct connection *connection) {
  struct out out = connection_out(connection, F_WELCOME);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_number(&out, T_EPOCH, run->epoch);
  out_number(&out, T_PHASE, run->phase == GATED && run->gate_used ? RUNNING : run->phase); /* after GO the command may have run */
  out_number(&out, T_ROOT_PID, (uint64_t)run->child.id.pid);
  out_number(&out, T_ROOT_START, run->child.id.start);
  out_number(&out, T_ROOT_UNIQUE, run->child.id.unique);
  out_number(&out, T_ANCHOR_PID, (uint64_t)run->anchor.pid);
  out_number(&out, T_ANCHOR_START, run->anchor.start);
  out_number(&out, T_ANCHOR_UNIQUE, run->anchor.unique);
  out_text(&out, T_TIER, tier(run));
  if (run->boundary.note[0] != 0) out_text(&out, T_TIER_NOTE, run->boundary.note);
  if (run->boundary.path[0] != 0) {
    out_text(&out, T_CGROUP, run->boundary.path);
    out_number(&out, T_CGROUP_INODE, run->boundary.inode);
  }
  out_stream(&out, &run->streams[0], T_OUT_START, T_OUT_CLOSED, T_OUT_WITHHELD);
  out_stream(&out, &run->streams[1], T_ERR_START, T_ERR_CLOSED, T_ERR_WITHHELD);
  out_number(&out, T_OFFSET, run->input.accepted);
  out_number(&out, T_LIMIT, run->input.written + STDIN_BUFFER);
  if (run->input.closed) out_number(&out, T_CLOSED, 1);
  if (run->stop.set) out_stop(run, &out, NULL);
  out_number(&out, T_KIND, run->policy.service ? 1 : 0);
  if (run->executed) out_number(&out, T_ELAPSED_MS, os_now_ms() - run->started_at);
  if (run->executed && run->leader_code >= 0) out_number(&out, T_CODE, (uint64_t)run->leader_code);
  if (run->executed && run->leader_signal >= 0) out_number(&out, T_SIGNAL, (uint64_t)run->leader_signal);
  connection_send(run, connection, &out);
}

/* ---- open and close ---- */

static struct connection *connection_add(struct run *run, int fd) {
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *connection = &run->connections[i];
    if (connection->fd >= 0) continue;
    *connection = (struct connection){.fd = fd, .in_size = FRAME_MAX + 4, .since = os_now_ms()};
    return connection;
  }
  return NULL;
}

static void record_owner(struct run *run, int fd) {
  os_pid pid = os_peer(fd);
  if (pid <= 0 || !os_identity(pid, &run->owner_process)) run->owner_process = (struct identity){0};
}

void connections_add_owner(struct run *run, int fd) {
  run->owner = connection_add(run, fd);
  run->owner->authenticated = true;
  record_owner(run, fd);
}

void connection_drop(struct run *run, struct connection *connection) {
  if (connection->fd < 0) return;
  os_close(connection->fd);
  if (connection->in != NULL) os_unmap(connection->in, connection->in_size);
  if (connection->out != NULL) os_unmap(connection->out, OUT_SIZE);
  *connection = (struct connection){.fd = -1};
  if (connection == run->owner) {
    run->owner = NULL;
    run->owner_lost_at = os_now_ms();
    close_gate(run); /* at once: no later owner may send GO */
  }
}

/* Flushes the last messages, but not longer than the given time. */
void connections_finish(struct run *run, uint64_t patience_ms) {
  uint64_t until = os_now_ms() + patience_ms;
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *connection = &run->connections[i];
    while (connection->fd >= 0 && connection->out_sent < connection->out_used && os_now_ms() < until) {
      struct os_poll p = {.fd = connection->fd, .wants = OS_WRITE};
      os_poll(&p, 1, 50);
      connection_flush(connection);
    }
  }
}

/* Creates the socket; also called again after it was deleted. */
bool listener_open(struct run *run) {
  char path[PATH_SIZE + 8];
  uint64_t identity;
  snprintf(path, sizeof path, "%s/sock", run->directory);
  int fd = os_listen(path, BACKLOG, &identity);
  if (fd < 0) return false;
  if (run->listener >= 0) os_close(run->listener);
  run->listener = fd;
  run->socket_inode = identity;
  return true;
}

/* True if `a` is dropped before `b`: connections without HELLO first, then the oldest observer; never the owner. A
 * STOP must always get through. */
static bool is_less_needed(const struct connection *a, const struct connection *b) {
  return a->authenticated != b->authenticated ? !a->authenticated : a->since < b->since;
}

static struct connection *least_needed(struct run *run) {
  struct connection *least = NULL;
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    if (c == run->owner || c->fd < 0) continue;
    if (least == NULL || is_less_needed(c, least)) least = c;
  }
  return least;
}

/* Drops the least needed connections of all runs until DESCRIPTORS_RESERVED descriptors are free. */
static void make_room(void) {
  while (os_descriptors_free(DESCRIPTORS_RESERVED) < DESCRIPTORS_RESERVED) {
    struct run *of = NULL;
    struct connection *least = NULL;
    for (struct run *run = runs; run < runs + RUNS_MAX; run++) {
      struct connection *c = run->active ? least_needed(run) : NULL;
      if (c == NULL || c->fd < 0 || (least != NULL && !is_less_needed(c, least))) continue;
      least = c;
      of = run;
    }
    if (least == NULL) return;
    connection_drop(of, least);
  }
}

void connections_accept(struct run *run, uint64_t now) {
  make_room();
  int fd = os_accept(run->listener);
  if (fd < 0) run->accept_at = now + ACCEPT_RETRY_MS; /* the connection stays in the backlog, so poll would return at once */
  if (fd >= 0 && !os_peer_trusted(fd)) { /* before it replaces a trusted connection */
    os_close(fd);
    return;
  }
  if (fd < 0 || connection_add(run, fd) != NULL) return;
  connection_drop(run, least_needed(run));
  if (connection_add(run, fd) == NULL) os_close(fd);
}

void drop_silent_connections(struct run *run, uint64_t now) {
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    if (c->fd >= 0 && !c->authenticated && now - c->since > HELLO_TIMEOUT_MS) connection_drop(run, c);
  }
}

/* ---- requests ---- */

static bool same_key(const char *a, const char *b) {
  size_t n = strlen(b);
  if (strlen(a) != n) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < n; i++) difference |= (unsigned)(a[i] ^ b[i]);
  return difference == 0;
}

/* False: refused, and the connection is closed. */
static bool handle_hello(struct run *run, struct connection *connection, const struct frame *frame) {
  char id[sizeof run->id], key[sizeof run->key];
  uint64_t protocol = 0, epoch = 0;
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
  if (frame_time(frame, T_GRACE_MS, &n) && (n < run->policy.grace || (!run->stop.set && !run->terminating))) run->policy.grace = n;
  /* The policy is in effect even if the file cannot be written: WELCOME reports the kind. */
  if (run->policy.service != was_service) (void)save_anchor_file(run);
}

static void handle_go(struct run *run, struct connection *connection) {
  if (run->phase != GATED || !run->ready || run->child.gate < 0 || run->stop.set || run->leader_done) {
    refuse(run, connection, "bad-phase", "no child is waiting at the gate");
    return;
  }
  run->gate_used = true;
  run->overall_from = run->output_at = os_now_ms();
  os_gate_open(&run->child);
}

static void handle_owner_frame(struct run *run, struct connection *connection, const struct frame *frame) {
  uint64_t a = 0, b = 0;
  if (connection != run->owner) {
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

/* False: the connection has ended or violated the protocol. */
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
