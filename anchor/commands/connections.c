/* Connections of supervisors, and what they are sent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"

#define OUT_SIZE (64u * 1024)
#define HELLO_TIMEOUT_MS 10000
#define ACCEPT_RETRY_MS 100
#define FLUSH_AT 2048

/* ---- sending ---- */

/* True if the peer has not read all earlier messages. */
bool backlogged(const struct connection *connection) { return connection->blocked; }

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
    else if (n < 0 && errno == EAGAIN) {
      connection->blocked = true;
      return;
    } else break; /* the reader will see the end of the connection */
  }
  connection->out_used = connection->out_sent = 0;
  connection->blocked = false;
}

void connections_flush(struct run *run) {
  for (int i = 0; i < CONNECTIONS; i++)
    if (!run->connections[i].blocked) connection_flush(&run->connections[i]);
}

void connection_send(struct run *run, struct connection *connection, struct out *out) {
  if (connection->fd < 0) return;
  if (!out_end(out)) {
    connection_drop(run, connection); /* the peer does not read: it can reconnect and ask */
    return;
  }
  connection->out_used = out->used;
  if (out->used >= FLUSH_AT) connection_flush(connection); /* otherwise at the end of this turn of the loop, with what follows */
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
  snprintf(text, sizeof text, "%s%s+%s", os_boundary_kind(&run->boundary), run->launcher != 0 ? "+launcher" : "",
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

static uint64_t wire_phase(const struct run *run) {
  if (run->kill_at != 0) return PHASE_EXITING;
  return run->go_at != 0 ? PHASE_RUNNING : PHASE_GATED; /* after GO the command may have run */
}

void send_welcome(struct run *run, struct connection *connection) {
  struct out out = connection_out(connection, F_WELCOME);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_number(&out, T_EPOCH, run->epoch);
  out_number(&out, T_PHASE, wire_phase(run));
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
  if (run->started_at != 0) out_number(&out, T_ELAPSED_MS, os_now_ms() - run->started_at);
  if (run->started_at != 0 && run->leader_code >= 0) out_number(&out, T_CODE, (uint64_t)run->leader_code);
  if (run->started_at != 0 && run->leader_signal >= 0) out_number(&out, T_SIGNAL, (uint64_t)run->leader_signal);
  if (run->caller != NULL) out_number(&out, T_CALLER, 1);
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

void record_owner(struct run *run, int fd) {
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
  connection_flush(connection); /* it may be told why */
  os_close(connection->fd);
  if (connection->in != NULL) os_unmap(connection->in, connection->in_size);
  if (connection->out != NULL) os_unmap(connection->out, OUT_SIZE);
  *connection = (struct connection){.fd = -1};
  if (connection == run->caller) caller_lost(run);
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
    connection_flush(connection);
    while (connection->fd >= 0 && connection->out_sent < connection->out_used && os_now_ms() < until) {
      struct os_poll p = {.fd = connection->fd, .wants = OS_WRITE};
      os_poll(&p, 1, 50);
      connection_flush(connection);
    }
  }
}

/* True if `a` is dropped before `b`: connections without HELLO first, then the oldest observer; never the owner
 * or the caller. A STOP must always get through. */
static bool is_less_needed(const struct connection *a, const struct connection *b) {
  return a->authenticated != b->authenticated ? !a->authenticated : a->since < b->since;
}

static struct connection *least_needed(struct run *run) {
  struct connection *least = NULL;
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    if (c == run->owner || c == run->caller || c->fd < 0) continue;
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
