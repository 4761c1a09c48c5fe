/* Follows one run through its anchor, from its first output to its end. No byte passes through the gateway, which may be
 * restarted meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"

#define DRAIN_MS 2000           /* drainMs of src/defaults/runs.ts: time for the rest of the output after an interrupt */
#define BACKGROUND_POLL_MS 200  /* a shell brings a job to the foreground without a signal */
#define RECORD_WAIT_MS 2500     /* a gateway answers within recordWaitMs of the end */

struct follow {
  const struct options *options;
  const char *run_id, *directory;
  struct gateway *gateway;
  struct link link;
  struct output outputs[STREAMS];
  struct input input;
  char *exit_text; /* NULL: the run has not ended */
  struct json_value exit;
  bool welcomed, service, stuck, output_closed_sent, input_ended_sent;
  int applied; /* interrupts that were applied */
  int64_t drain_until; /* 0: no limit */
};

static _Noreturn void give_to_node(const struct follow *f) {
  struct progress progress = {.run_id = f->run_id, .input = f->input.sent, .signals = interrupt_count, .first_signal = first_interrupt};
  for (int i = 0; i < STREAMS; i++) progress.written[i] = f->outputs[i].written;
  continue_in_node(&progress);
}

/* ---- frames ---- */

static void on_welcome(struct follow *f, const struct frame *frame) {
  static const uint8_t ends[STREAMS] = {T_OUT_END, T_ERR_END}, closed[STREAMS] = {T_OUT_CLOSED, T_ERR_CLOSED};
  uint64_t n;
  for (int i = 0; i < STREAMS; i++) {
    if (frame_number(frame, ends[i], &n) && n > f->outputs[i].end) f->outputs[i].end = n;
    if (frame_number(frame, closed[i], &n)) f->outputs[i].closed = true;
  }
  if (!f->welcomed && frame_number(frame, T_OFFSET, &n)) f->input.sent = n;
  if (frame_number(frame, T_LIMIT, &n)) f->input.limit = n;
  if (frame_number(frame, T_CLOSED, &n)) input_close(&f->input);
  bool service = frame_number(frame, T_KIND, &n) && n == 1;
  if (service && !f->service) notice_dim("run %s is a service now; it continues when this command ends", f->run_id);
  f->service = service;
  f->welcomed = true;
}

static void on_output(struct follow *f, const struct frame *frame) {
  uint64_t stream, end;
  if (!frame_number(frame, T_STREAM, &stream) || stream < 1 || stream > STREAMS || !frame_number(frame, T_END, &end)) return;
  struct output *output = &f->outputs[stream - 1];
  if (end > output->end) output->end = end;
  if (frame_number(frame, T_CLOSED, &end)) output->closed = true;
}

/* Takes the ends of both streams from exit.json: the anchor stores nothing after the end. */
static void know_ends(struct follow *f, struct json_value exit) {
  static const char *const names[STREAMS] = {"stdout", "stderr"};
  for (int i = 0; i < STREAMS; i++) {
    uint64_t end;
    if (json_integer(json_member(json_member(exit, names[i]), "end"), &end) && end > f->outputs[i].end) f->outputs[i].end = end;
    f->outputs[i].closed = true;
  }
}

static void on_end(struct follow *f, const char *text, size_t length) {
  if (f->exit_text != NULL) return;
  f->exit_text = malloc(length + 1);
  if (f->exit_text == NULL) give_to_node(f);
  memcpy(f->exit_text, text, length);
  if (!json_parse(f->exit_text, length, &f->exit)) give_to_node(f);
  know_ends(f, f->exit);
}

static void on_frame(void *context, const struct frame *frame) {
  struct follow *f = context;
  struct field field;
  size_t at = 0;
  uint64_t n;
  switch (frame->type) {
    case F_WELCOME: on_welcome(f, frame); return;
    case F_OUTPUT: on_output(f, frame); return;
    case F_STDIN:
      if (frame_number(frame, T_LIMIT, &n)) f->input.limit = n;
      if (frame_number(frame, T_CLOSED, &n)) input_close(&f->input);
      return;
    case F_SURVIVORS: f->stuck = true; return;
    case F_EXITED:
      while (field_next(frame, &at, &field) > 0)
        if (field.tag == T_JSON) on_end(f, (const char *)field.data, field.length);
      return;
    default: return;
  }
}

/* The anchor exits after it has written exit.json, so a client that was suspended meanwhile reads the end from the file. */
static void on_link_lost(struct follow *f) {
  static char text[128 * 1024];
  char path[CLIENT_PATH + 16];
  link_close(&f->link);
  if (f->exit_text != NULL) return;
  snprintf(path, sizeof path, "%s/exit.json", f->directory);
  long length = read_own_file(path, text, sizeof text);
  if (length <= 0) give_to_node(f);
  on_end(f, text, (size_t)length);
}

/* ---- requests ---- */

static void send_stop(struct follow *f, const char *actor, bool at_once) {
  char request[24] = "";
  if (f->link.fd < 0) return;
  (void)new_id("req", request, sizeof request);
  struct out out = link_out(&f->link, F_STOP);
  out_text(&out, T_REASON, "manual-cancel");
  out_text(&out, T_ACTOR, actor);
  out_text(&out, T_REQUEST_ID, request);
  if (at_once) out_number(&out, T_GRACE_MS, 0);
  link_send(&f->link, &out);
}

static void send_size(struct follow *f) {
  int rows, cols;
  if (!f->options->pty || f->link.fd < 0 || !terminal_size(&rows, &cols)) return;
  struct out out = link_out(&f->link, F_RESIZE);
  out_number(&out, T_ROWS, (uint64_t)rows);
  out_number(&out, T_COLS, (uint64_t)cols);
  link_send(&f->link, &out);
}

static void send_acks(struct follow *f) {
  for (int i = 0; i < STREAMS; i++) {
    struct output *output = &f->outputs[i];
    if (f->link.fd < 0 || output->written == output->acked || link_backlogged(&f->link)) continue;
    struct out out = link_out(&f->link, F_ACK);
    out_number(&out, T_STREAM, (uint64_t)output->stream);
    out_number(&out, T_OFFSET, output->written);
    link_send(&f->link, &out);
    output->acked = output->written;
  }
}

void say_interrupt(void) {
  if (interrupt_count == 1) notice(first_interrupt == SIGINT ? "stopping… press Ctrl-C again to kill" : "stopping…");
  if (interrupt_count == 2) notice("killing…");
}

/* The first interrupt stops the run, the second kills it. False: the third leaves it to its anchor. */
static bool apply_interrupts(struct follow *f) {
  char user[128], actor[160];
  while (f->applied < interrupt_count) {
    if (f->service || ++f->applied > 2) return false;
    snprintf(actor, sizeof actor, "cli:%s", user_name(user, sizeof user) ? user : "unknown");
    send_stop(f, actor, f->applied == 2);
  }
  return true;
}

/* ---- the loop ---- */

static bool finished(struct follow *f) {
  if (f->exit_text == NULL) return false;
  if (output_done(&f->outputs[0]) && output_done(&f->outputs[1])) return true;
  if (interrupt_count > 0 && f->drain_until == 0) f->drain_until = now_ms() + DRAIN_MS;
  return f->drain_until != 0 && now_ms() >= f->drain_until;
}

/* The time when --end-with-input stops the run. 0: the input has not ended, or the run was stopped. */
static int64_t input_deadline(const struct follow *f) {
  if (f->options->end_with_input < 0 || f->input.ended_at < 0 || f->input_ended_sent || f->service) return 0;
  return f->input.ended_at + f->options->end_with_input;
}

static void stop_after_input(struct follow *f) {
  int64_t until = input_deadline(f);
  if (until == 0 || now_ms() < until || f->link.fd < 0) return;
  f->input_ended_sent = true;
  send_stop(f, INPUT_ENDED, false);
}

static int wait_time(const struct follow *f, bool foreground) {
  int64_t until = f->link.fd < 0 ? 0 : input_deadline(f);
  if (until != 0) return now_ms() < until ? (int)(until - now_ms()) : 0;
  if (f->drain_until != 0) return now_ms() < f->drain_until ? (int)(f->drain_until - now_ms()) : 0;
  return f->input.terminal && !foreground && f->input.fd >= 0 ? BACKGROUND_POLL_MS : -1;
}

static void on_terminal_change(struct follow *f, bool *foreground) {
  bool now = !f->input.terminal || in_foreground();
  if (f->options->pty && (terminal_changed || (now && !*foreground))) {
    if (now) terminal_raw();
    send_size(f);
  }
  terminal_changed = false;
  *foreground = now;
}

/* False: this process leaves before the end, because of interrupts or of processes that survived KILL. */
static bool follow_to_end(struct follow *f) {
  enum { P_WAKE, P_LINK, P_INPUT, P_OUTPUTS, P_COUNT = P_OUTPUTS + STREAMS };
  bool foreground = true;
  while (!finished(f)) {
    struct pollfd set[P_COUNT];
    for (int i = 0; i < P_COUNT; i++) set[i] = (struct pollfd){.fd = -1};
    on_terminal_change(f, &foreground);
    set[P_WAKE] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    set[P_LINK] = (struct pollfd){.fd = f->link.fd, .events = (short)(POLLIN | (link_backlogged(&f->link) ? POLLOUT : 0))};
    if (f->exit_text == NULL && input_wants(&f->input, &f->link)) set[P_INPUT] = (struct pollfd){.fd = f->input.fd, .events = POLLIN};
    for (int i = 0; i < STREAMS; i++)
      if (output_wants_room(&f->outputs[i])) set[P_OUTPUTS + i] = (struct pollfd){.fd = f->outputs[i].fd, .events = POLLOUT};
    if (poll(set, P_COUNT, wait_time(f, foreground)) < 0 && errno != EINTR) give_to_node(f);
    if (interrupts_take() && !f->service) say_interrupt();
    if (!apply_interrupts(f)) return false;
    if ((set[P_LINK].revents & POLLOUT) != 0) link_flush(&f->link);
    if ((set[P_LINK].revents & ~POLLOUT) != 0 && !link_read(&f->link, on_frame, f)) on_link_lost(f);
    if (set[P_INPUT].revents != 0 && f->input.fd >= 0 && f->link.fd >= 0 && input_wants(&f->input, &f->link)) input_forward(&f->input, &f->link);
    for (int i = 0; i < STREAMS; i++) {
      struct output *output = &f->outputs[i];
      (void)output_write(output);
      if (!output->failed || f->output_closed_sent) continue;
      f->output_closed_sent = true;
      send_stop(f, "cli:output-closed", false);
    }
    send_acks(f);
    stop_after_input(f);
    if (f->stuck && f->exit_text == NULL) return false;
  }
  return true;
}

/* An interrupt or the timeout ends the wait for the record. */
static bool give_up(bool late) {
  (void)late;
  return false;
}

/* Waits until the gateway has committed the record. Without a gateway, or if it does not answer, exit.json is durable, and the
 * gateway or the next one imports it. False: Node must report the problem. */
static bool wait_for_record(struct follow *f) {
  char path[160];
  struct answer answer = {0};
  struct json_value content;
  snprintf(path, sizeof path, "/v1/runs/%s/poll?waitMs=%d&maxChars=0&stdout=%llu&stderr=%llu", f->run_id, RECORD_WAIT_MS,
           (unsigned long long)f->outputs[0].end, (unsigned long long)f->outputs[1].end);
  for (int tries = 0; tries < 2; tries++) {
    if (f->gateway->fd < 0 && !gateway_connect(f->gateway)) return true;
    enum exchange how = gateway_request(f->gateway, "GET", path, NULL, 0, give_up, 2 * RECORD_WAIT_MS, &answer);
    if (how == INTERRUPTED) return true;
    if (how != ANSWERED) continue; /* the gateway closes connections that are idle */
    bool valid = answer.status == 200 && json_parse(answer.body, answer.length, &content);
    bool committed = valid && json_is(json_member(json_member(content, "run"), "state"), "\"exited\"") &&
                     json_is(json_member(content, "recordPending"), "null");
    free(answer.body);
    return committed;
  }
  return true;
}

static int leave(struct follow *f) {
  int code = first_interrupt == 0 ? EXIT_FAILURE_OURS : EXIT_SIGNAL + first_interrupt;
  if (f->stuck) give_to_node(f);
  terminal_restore();
  if (f->service) notice("run %s is a service now, and continues", f->run_id);
  else notice("left run %s to its anchor, which continues to terminate it", f->run_id);
  return code;
}

int follow_run(struct gateway *gateway, const struct options *options, const char *run_id, const char *directory) {
  static struct follow f;
  static struct exit_summary summary;
  f = (struct follow){.options = options, .run_id = run_id, .directory = directory, .gateway = gateway};
  int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < STREAMS; i++) output_open(&f.outputs[i], i + 1, dir);
  if (dir < 0) give_to_node(&f);
  if (!link_open(&f.link, directory, run_id)) on_link_lost(&f); /* a short run may have ended already */
  input_open(&f.input, options->end_with_input >= 0);
  if (options->pty) terminal_raw();
  if (!follow_to_end(&f)) return leave(&f);
  if (!wait_for_record(&f) || !describe_exit(f.exit, options, f.outputs, first_interrupt, &summary)) give_to_node(&f);
  terminal_restore();
  if (summary.message[0] != 0) notice("%s", summary.message);
  return summary.code;
}
