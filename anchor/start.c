/* Starts a run: START, the boundary, the child behind the gate, and its reports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modes.h"
#include "run.h"

#define START_PATIENCE_MS 10000
#define ARGUMENTS_MAX (1 << 20)

/* Reads exactly one frame; the loop reads the rest. */
static bool read_start(int fd, uint8_t *buffer, struct frame *frame) {
  size_t have = 0, want = LENGTH_SIZE;
  uint64_t until = os_now_ms() + START_PATIENCE_MS;
  while (have < want) {
    struct os_poll p = {.fd = fd, .wants = OS_READ};
    uint64_t now = os_now_ms();
    if (now >= until) return false;
    os_poll(&p, 1, (int)(until - now));
    long n = os_read(fd, buffer + have, want - have);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n > 0) have += (size_t)n;
    if (have == LENGTH_SIZE) {
      struct frame head;
      if (frame_take(buffer, have, START_MAX, &head) < 0) return false;
      want = LENGTH_SIZE + (size_t)wire_u32(buffer);
    }
  }
  return frame_take(buffer, have, START_MAX, frame) > 0 && frame->type == F_START && frame_well_formed(frame);
}

/* Copies fields to C strings. They cannot stay in place, because the byte after each is the next field's tag. */
static char **read_string_list(const struct frame *frame, uint8_t tag, char *text, char **list, size_t most) {
  struct field field;
  size_t at = 0, count = 0;
  while (field_next(frame, &at, &field) > 0) {
    if (field.tag != tag) continue;
    if (count + 1 >= most || memchr(field.data, 0, field.length) != NULL) return NULL;
    memcpy(text, field.data, field.length);
    text[field.length] = 0;
    list[count++] = text;
    text += field.length + 1;
  }
  list[count] = NULL;
  return list;
}

static uint64_t number_or(const struct frame *frame, uint8_t tag, uint64_t otherwise) {
  uint64_t n = otherwise;
  frame_number(frame, tag, &n);
  return n;
}

static uint64_t time_or(const struct frame *frame, uint8_t tag, uint64_t otherwise) {
  uint64_t ms = otherwise;
  frame_time(frame, tag, &ms);
  return ms;
}

static void read_policy(struct run *run, const struct frame *frame) {
  run->policy = (struct policy){
      .service = number_or(frame, T_KIND, 0) == 1,
      .sweep_escapes = number_or(frame, T_ON_ESCAPE, 0) == 1,
      .grace = time_or(frame, T_GRACE_MS, 5000),
      .settle = time_or(frame, T_SETTLE_MS, 100),
      .drain = time_or(frame, T_DRAIN_MS, 2000),
      .kill_report = time_or(frame, T_KILL_REPORT_MS, 2000),
      .overall = time_or(frame, T_OVERALL_MS, 0),
      .no_output = time_or(frame, T_NO_OUTPUT_MS, 0),
      .owner_loss = time_or(frame, T_OWNER_LOSS_MS, 120000),
      .backstop = time_or(frame, T_BACKSTOP_MS, 2000),
  };
}

static _Noreturn void fail_start(struct run *run, enum step step, int error) {
  send_failed(run, run->owner, step, error);
  connections_finish(run, 1000);
  os_boundary_remove(&run->boundary);
  exit(ANCHOR_NOT_STARTED);
}

void prepare_run(struct run *run, int fd, const char *run_id, const char *instance_dir, const char *cgroups, const char *note) {
  uint8_t *buffer = os_map(START_MAX + 4);
  struct frame start;
  connections_add_owner(run, fd);
  if (buffer == NULL || !read_start(fd, buffer, &start)) exit(ANCHOR_NOT_STARTED);
  char *text = os_map(2 * START_MAX), **argv = os_map(ARGUMENTS_MAX * sizeof *argv), **env = os_map(ARGUMENTS_MAX * sizeof *env);
  if (text == NULL || argv == NULL || env == NULL) fail_start(run, STEP_SPEC, ENOMEM);
  char cwd[4096] = "";
  uint64_t umask_value = 0;
  bool ok = frame_text(&start, T_RUN_ID, run->id, sizeof run->id) && strcmp(run->id, run_id) == 0 &&
            number_or(&start, T_PROTOCOL, 0) >= 1 && number_or(&start, T_PROTOCOL, 0) <= PROTOCOL && frame_text(&start, T_INSTANCE_ID, run->instance, sizeof run->instance) &&
            frame_text(&start, T_KEY, run->key, sizeof run->key) && strlen(run->key) >= 32 &&
            read_string_list(&start, T_ARG, text, argv, ARGUMENTS_MAX) != NULL && argv[0] != NULL &&
            read_string_list(&start, T_ENV, text + START_MAX, env, ARGUMENTS_MAX) != NULL;
  ok = ok && frame_text(&start, T_CWD, cwd, sizeof cwd);
  run->epoch = number_or(&start, T_EPOCH, 0);
  const uint64_t rows = number_or(&start, T_ROWS, 24), cols = number_or(&start, T_COLS, 80);
  if (!ok || run->epoch == 0 || !is_terminal_size(rows, cols)) fail_start(run, STEP_SPEC, EINVAL);
  read_policy(run, &start);
  if (!frame_text(&start, T_SCOPE, run->scope, sizeof run->scope)) run->scope[0] = 0;
  os_boundary_open(&run->boundary, cgroups, run->id, note);
  const uint64_t limits[LIMITS] = {
      [LIMIT_MEMORY] = number_or(&start, T_MEMORY_BYTES, 0),
      [LIMIT_PIDS] = number_or(&start, T_PIDS, 0),
      [LIMIT_CPUS] = number_or(&start, T_MILLI_CPUS, 0),
  };
  if (!os_limits_set(&run->boundary, limits, os_peer(fd), run->limit_note, sizeof run->limit_note)) fail_start(run, STEP_LIMIT, errno);
  struct child_spec spec = {
      .argv = argv, .env = env, .cwd = cwd,
      .set_umask = frame_number(&start, T_UMASK, &umask_value), .umask = umask_value & 0777,
      .pty = run->pty = number_or(&start, T_PTY, 0) == 1,
      .merge = number_or(&start, T_MERGE, 0) == 1,
      .stdin_null = number_or(&start, T_STDIN, 1) == 0,
      .verbatim = number_or(&start, T_VERBATIM, 0) == 1,
      .rows = (uint16_t)rows, .cols = (uint16_t)cols,
  };
  enum step step = os_spawn_gated(&spec, &run->boundary, &run->child);
  if (step != STEP_NONE) fail_start(run, step, errno);
  /* The child now goes to the gate; the loop sees when it arrives. */
  if (!open_directory(run, instance_dir)) {
    int error = errno;
    os_kill_gated_child(&run->child);
    if (error != EEXIST) remove_directory(run);
    fail_start(run, STEP_DIRECTORY, error);
  }
  if (!streams_open(run, &start)) {
    os_kill_gated_child(&run->child);
    remove_directory(run);
    fail_start(run, STEP_STDIO, ENOMEM);
  }
  os_unmap(buffer, START_MAX + 4);
  os_unmap(text, 2 * START_MAX);
  os_unmap(argv, ARGUMENTS_MAX * sizeof *argv);
  os_unmap(env, ARGUMENTS_MAX * sizeof *env);
}

static void out_nothing(struct run *run, struct out *out, const void *unused) {
  (void)run;
  (void)out;
  (void)unused;
}

void close_gate(struct run *run) {
  if (run->phase != STARTING && run->phase != GATED) return;
  os_gate_discard(&run->child); /* no GO will come */
  run->gate_closed_at = os_now_ms();
  run->phase = CLOSED;
}

/* Handles the child's first report: it is at the gate, or failed before. */
static void on_child_at_gate(struct run *run, enum step step, int error) {
  if (step == STEP_NONE && !os_identity(run->child.id.pid, &run->child.id)) step = STEP_FORK, error = ESRCH;
  if (step == STEP_NONE && !save_anchor_file(run)) step = STEP_DIRECTORY, error = errno;
  if (step == STEP_NONE) {
    run->phase = GATED;
    run->session = run->child.id.pid;
    if (run->owner != NULL) send_welcome(run, run->owner);
    return;
  }
  os_kill_gated_child(&run->child);
  remove_directory(run);
  if (run->owner == NULL) exit(ANCHOR_NOT_STARTED);
  fail_start(run, step, error);
}

void read_status(struct run *run) {
  struct child_report report = {.step = STEP_FORK, .error = ECHILD};
  int news = os_child_report(&run->child, &report);
  if (news == 0) return;
  if (run->phase == STARTING) {
    on_child_at_gate(run, (enum step)report.step, report.error);
    return;
  }
  if (news > 0 && report.step == STEP_NONE) return; /* at the gate, but too late */
  os_close(run->child.status);
  run->child.status = -1;
  if (run->go_at == 0) return;
  if (news > 0) {
    run->failure = report;
    for (int i = 0; i < CONNECTIONS; i++)
      if (run->connections[i].fd >= 0 && run->connections[i].authenticated)
        send_failed(run, &run->connections[i], (enum step)report.step, report.error);
    return;
  }
  if (run->phase == OPENED) run->phase = RUNNING; /* otherwise a stop was faster */
  run->started_at = run->overall_from = run->output_at = os_now_ms();
  send_to_all(run, F_STARTED, out_nothing, NULL);
  input_write(run);
}
