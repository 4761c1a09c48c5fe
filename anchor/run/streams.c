/* Writes output to spools. */
#include <errno.h>
#include <string.h>

#include "commands/commands.h"
#include "run/run.h"

#define READ_SIZE (256u * 1024)
#define FULL_PIPE (64u * 1024) /* a read of as much shows that the writer waits for room: for a caller, the pipe is made larger */
#define READ_PER_TURN (1u << 20) /* one busy stream must not delay owners and signals */
#define RETRY_MS 200
#define TERMINAL_HOLDS (128u * 1024) /* more than the kernel buffers between the two sides; the amount is not readable */

bool streams_open(struct run *run, const struct frame *start) {
  static const char *const names[2] = {"stdout", "stderr"};
  static const uint8_t bounds[2] = {T_OUT_BOUND, T_ERR_BOUND}, policies[2] = {T_OUT_POLICY, T_ERR_POLICY};
  for (int i = 0; i < 2; i++) {
    uint64_t bound = 8u << 20, policy = 0;
    frame_number(start, bounds[i], &bound);
    frame_number(start, policies[i], &policy);
    run->streams[i] = (struct stream){.number = i + 1, .fd = i == 0 ? run->child.out : run->child.err};
    spool_open(&run->streams[i].spool, names[i], run->dir, bound, policy == 1);
    /* Mapped now, because a failure later could not be reported. Only back-pressure holds bytes that could not be
     * stored. */
    if (policy == 1 && (run->streams[i].held = os_map(READ_SIZE)) == NULL) return false;
  }
  uint8_t *buffer = run->input.buffer; /* of a warm anchor, whose streams are opened twice */
  run->input = (struct input){.fd = run->child.in, .closed = run->child.in < 0, .buffer = buffer};
  return run->child.in < 0 || buffer != NULL || (run->input.buffer = os_map(STDIN_BUFFER)) != NULL;
}

bool stream_wants_read(const struct stream *stream) {
  return stream->fd >= 0 && stream->held_used == 0 && spool_room(&stream->spool, 1) > 0;
}

static void stream_end(struct run *run, struct stream *stream) {
  if (stream->fd >= 0 && !run->pty) os_close(stream->fd);
  stream->fd = -1;
  if (!stream->dirty) stream->sent_at = os_now_ms(); /* mostly the run ends now, and both are one message */
  stream->dirty = true;
  (void)spool_check(&stream->spool);
  spool_close(&stream->spool);
}

void streams_check(struct run *run) {
  for (int i = 0; i < 2; i++)
    if (spool_check(&run->streams[i].spool)) run->streams[i].dirty = true;
}

/* Ends the streams after the drain: a process outside the run holds the other end. */
void streams_abandon(struct run *run) {
  for (int i = 0; i < 2; i++)
    if (run->streams[i].fd >= 0) stream_end(run, &run->streams[i]);
}

static void store(struct stream *stream, const uint8_t *data, size_t length) {
  size_t done = spool_append(&stream->spool, data, length);
  stream->dirty = true;
  if (done == length) return;
  memmove(stream->held, data + done, length - done);
  stream->held_used = length - done;
  stream->retry_at = os_now_ms() + RETRY_MS;
}

void stream_read(struct run *run, struct stream *stream) {
  static uint8_t buffer[READ_SIZE];
  for (size_t taken = 0; taken < READ_PER_TURN && stream_wants_read(stream);) {
    long n = os_read(stream->fd, buffer, spool_room(&stream->spool, sizeof buffer));
    if (n > 0) {
      run->output_at = os_now_ms();
      taken += (size_t)n;
      if (n >= (long)FULL_PIPE && run->caller != NULL && !stream->grown) {
        os_pipe_grow(stream->fd, READ_SIZE);
        stream->grown = true;
      }
      store(stream, buffer, (size_t)n);
    } else if (n < 0 && errno == EAGAIN) {
      return;
    } else { /* the end, or an error: the other side of a terminal is closed */
      stream_end(run, stream);
    }
  }
}

static void read_rest(struct run *run) {
  for (int i = 0; i < 2; i++)
    if (run->streams[i].fd >= 0) stream_read(run, &run->streams[i]);
}

/* No process of the run writes any more, and the rest is in kernel buffers. Another process with the other end open,
 * such as an adopted one, is read until the drain is over, within the limit. A terminal is read before its last descriptor
 * is closed, because macOS discards then what is unread, and after it, until the end. */
void streams_drain(struct run *run, uint64_t now) {
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &run->streams[i];
    size_t left = stream->fd >= 0 ? os_readable(stream->fd) : 0;
    spool_drain(&stream->spool, left + (run->pty ? TERMINAL_HOLDS : 0) + 1); /* one more, to read the end */
    stream->retry_at = now;
  }
  read_rest(run);
  if (run->child.slave < 0) return;
  os_close(run->child.slave);
  run->child.slave = -1;
  read_rest(run);
}

void streams_free(struct run *run) {
  for (int i = 0; i < 2; i++) {
    spool_close(&run->streams[i].spool);
    if (run->streams[i].held != NULL) os_unmap(run->streams[i].held, READ_SIZE);
  }
  if (run->input.buffer != NULL) os_unmap(run->input.buffer, STDIN_BUFFER);
}

/* False: the connection has not read all earlier messages; it gets the newest state when it reads again. */
static bool send_output(struct run *run, struct stream *stream, struct connection *connection) {
  if (connection == NULL) return true;
  if (backlogged(connection)) return false;
  struct out out = connection_out(connection, F_OUTPUT);
  out_number(&out, T_STREAM, (uint64_t)stream->number);
  out_number(&out, T_START, stream->spool.start);
  out_number(&out, T_END, stream->spool.end);
  out_number(&out, T_DROPPED, stream->spool.dropped);
  if (run->caller != NULL) out_number(&out, T_OUT_ACKED, stream->spool.acked); /* by the caller, which the owner does not see */
  if (stream->fd < 0 && stream->held_used == 0) out_number(&out, T_CLOSED, 1);
  if (stream->withheld) out_number(&out, T_WITHHELD, 1);
  if (stream->spool.lost != 0) out_number(&out, T_LOST, stream->spool.lost);
  if (stream->spool.error != 0) out_number(&out, T_ERRNO, (uint64_t)stream->spool.error);
  connection_send(run, connection, &out);
  return true;
}

static void send_unsent(struct run *run, struct stream *stream, uint64_t now) {
  if (!stream->unsent[0] && !stream->unsent[1]) return;
  if (stream->unsent[0]) stream->unsent[0] = !send_output(run, stream, run->owner);
  if (stream->unsent[1]) stream->unsent[1] = !send_output(run, stream, run->caller);
  stream->sent_at = now;
}

void streams_settle(struct run *run, uint64_t now) {
  bool withheld = false;
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &run->streams[i];
    if (stream->held_used > 0 && now >= stream->retry_at) {
      size_t length = stream->held_used;
      stream->held_used = 0;
      store(stream, stream->held, length);
    }
    bool held_back = stream->fd >= 0 && !stream_wants_read(stream);
    if (held_back != stream->withheld) stream->dirty = true;
    stream->withheld = held_back;
    withheld |= held_back;
    if (stream->dirty) stream->unsent[0] = stream->unsent[1] = true;
    stream->dirty = false;
    if (now - stream->sent_at >= SEND_EVERY_MS) send_unsent(run, stream, now);
  }
  if (run->input.dirty && now >= run->input.send_at) report_input(run);
  if (withheld && run->withheld_since == 0) run->withheld_since = now;
  if (!withheld && run->withheld_since != 0) {
    run->output_at += now - run->withheld_since; /* the anchor did not read, so that time was not silence */
    run->withheld_since = 0;
  }
}

void streams_report(struct run *run, uint64_t now) {
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &run->streams[i];
    if (stream->dirty) stream->unsent[0] = stream->unsent[1] = true;
    stream->dirty = false;
    send_unsent(run, stream, now);
  }
  if (run->input.dirty) report_input(run);
}

static bool hears(const struct connection *connection) { return connection == NULL || !backlogged(connection); }

uint64_t streams_due(const struct run *run) {
  uint64_t due = run->input.dirty && hears(run->owner) && hears(run->caller) ? run->input.send_at : FOREVER;
  for (int i = 0; i < 2; i++) {
    const struct stream *stream = &run->streams[i];
    bool send = stream->dirty || (stream->unsent[0] && hears(run->owner)) || (stream->unsent[1] && hears(run->caller));
    if (send && stream->sent_at + SEND_EVERY_MS < due) due = stream->sent_at + SEND_EVERY_MS;
    if (stream->held_used > 0 && stream->retry_at < due) due = stream->retry_at;
  }
  return due;
}

bool streams_ended(const struct run *run) {
  return run->streams[0].fd < 0 && run->streams[1].fd < 0 && run->streams[0].held_used == 0 && run->streams[1].held_used == 0;
}
