/* Writes input from the owner to the program. */
#include <errno.h>

#include "commands/commands.h"
#include "run/run.h"

void send_input(struct run *run, struct connection *connection) {
  if (connection == NULL) return;
  if (backlogged(connection)) {
    run->input.dirty = true;
    return;
  }
  struct out out = connection_out(connection, F_STDIN);
  out_number(&out, T_OFFSET, run->input.accepted);
  out_number(&out, T_LIMIT, run->input.written + STDIN_BUFFER);
  if (run->input.closed) out_number(&out, T_CLOSED, 1);
  connection_send(run, connection, &out);
}

void report_input(struct run *run) {
  run->input.dirty = false;
  run->input.send_at = 0;
  send_input(run, run->owner);
  send_input(run, run->caller);
}

void input_accept(struct run *run, struct connection *from, uint64_t offset, const uint8_t *data, size_t length) {
  struct input *input = &run->input;
  if (offset > input->accepted) {
    refuse(run, from, "stdin-gap", "bytes before this offset are missing; send from the accepted offset");
    return;
  }
  uint64_t end = offset + length;
  if (!input->closed && end > input->written + STDIN_BUFFER) {
    refuse(run, from, "stdin-limit", "more than the limit allows; wait for credit");
    return;
  }
  for (uint64_t at = input->accepted; at < end; at++) { /* bytes before that are a repetition */
    if (!input->closed) input->buffer[at % STDIN_BUFFER] = data[at - offset];
    input->accepted = at + 1;
  }
  if (input->closed) input->written = input->accepted;
  input_write(run);
  send_input(run, from);
  if (from != run->owner) send_input(run, run->owner); /* the owner may write when the caller has left */
}

static void input_finish(struct run *run) {
  if (run->pty && !os_terminal_end_input(&run->child, run->input.written > 0 && run->input.last != '\n')) return; /* no room: tried again later */
  if (!run->pty && run->input.fd >= 0) os_close(run->input.fd);
  if (!run->pty) run->input.fd = -1;
  run->input.end_asked = false;
  run->input.closed = !run->pty;
}

void input_close_at(struct run *run, uint64_t offset) {
  if (run->input.closed || run->input.fd < 0) return;
  run->input.end_asked = true;
  run->input.end_at = offset;
  input_write(run);
}

bool input_wants_write(const struct run *run) {
  return run->input.fd >= 0 && run->started_at != 0 && (run->input.written < run->input.accepted || (run->pty && run->input.end_asked));
}

void input_reader_gone(struct run *run) {
  if (run->input.fd < 0) return;
  if (!run->pty) os_close(run->input.fd);
  run->input.fd = -1;
  run->input.closed = true;
  run->input.written = run->input.accepted;
  run->input.dirty = true;
  run->input.send_at = os_now_ms() + SEND_EVERY_MS; /* mostly the run ends now */
}

void input_write(struct run *run) {
  struct input *input = &run->input;
  bool progress = false;
  while (input->fd >= 0 && run->started_at != 0 && input->written < input->accepted) {
    size_t at = input->written % STDIN_BUFFER, left = (size_t)(input->accepted - input->written);
    size_t length = left < STDIN_BUFFER - at ? left : STDIN_BUFFER - at;
    long n = os_write(input->fd, input->buffer + at, length);
    if (n > 0) {
      input->last = input->buffer[at + (size_t)n - 1];
      input->written += (uint64_t)n;
      progress = true;
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else {
      input_reader_gone(run);
      return;
    }
  }
  if (input->end_asked && input->written >= input->end_at && input->written == input->accepted && run->started_at != 0) {
    input_finish(run);
    progress = true;
  }
  if (progress) report_input(run);
}

bool is_terminal_size(uint64_t rows, uint64_t cols) { return rows > 0 && rows <= UINT16_MAX && cols > 0 && cols <= UINT16_MAX; }

void input_resize(struct run *run, uint64_t rows, uint64_t cols) {
  if (run->pty && run->streams[0].fd >= 0 && is_terminal_size(rows, cols)) os_terminal_resize(&run->child, (uint16_t)rows, (uint16_t)cols);
}
