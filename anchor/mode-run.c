/* `anchor run`: one anchor, its run, and services adopted out of it: start and main loop. The rest is in streams.c,
 * connections.c and ending.c. */
#include "run.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modes.h"

#define START_PATIENCE_MS 10000
#define CHECK_FIRST_MS 5000
#define ARGUMENTS_MAX (1 << 20)

struct run runs[RUNS_MAX];
const char *cgroups_of_runs;
static struct heartbeat *own_heartbeat; /* NULL if no launcher shares it */

int runs_active(void) {
  int count = 0;
  for (int i = 0; i < RUNS_MAX; i++) count += runs[i].active;
  return count;
}

/* ---- START ---- */

/* Reads exactly one frame; the loop reads the rest. */
static bool read_start(int fd, uint8_t *buffer, struct frame *frame) {
  size_t have = 0, want = 4;
  uint64_t until = os_now_ms() + START_PATIENCE_MS;
  while (have < want) {
    struct os_poll p = {.fd = fd, .wants = OS_READ};
    uint64_t now = os_now_ms();
    if (now >= until) return false;
    os_poll(&p, 1, (int)(until - now));
    long n = os_read(fd, buffer + have, want - have);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n > 0) have += (size_t)n;
    if (have == 4) {
      struct frame head;
      if (frame_take(buffer, have, START_MAX, &head) < 0) return false;
      want = 4 + ((size_t)buffer[0] | (size_t)buffer[1] << 8 | (size_t)buffer[2] << 16 | (size_t)buffer[3] << 24);
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

bool open_directory(struct run *run, const char *instance_dir) {
  snprintf(run->instance_directory, sizeof run->instance_directory, "%s", instance_dir);
  if ((size_t)snprintf(run->directory, sizeof run->directory, "%s/runs/%s", instance_dir, run->id) >= sizeof run->directory) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (!os_directory_create(run->directory)) return false;
  run->dir = os_directory_open(run->directory);
  bool ok = run->dir >= 0 && os_file_save(run->dir, "key", run->key, strlen(run->key)) && listener_open(run);
  return ok;
}

void remove_directory(struct run *run) {
  static const char *const files[] = {"sock", "key", "stop.json", "anchor.json"};
  int error = errno;
  for (size_t i = 0; run->dir >= 0 && i < sizeof files / sizeof *files; i++) os_file_remove(run->dir, files[i]);
  os_directory_remove(run->directory);
  errno = error;
}

static void json_identity(struct json *json, const char *key, const struct identity *id) {
  json_raw(json, key);
  json_key_number(json, "{\"pid\":", (uint64_t)id->pid);
  json_key_number(json, ",\"startTime\":", id->start);
  json_key_number(json, ",\"uniqueId\":\"", id->unique);
  json_raw(json, "\"}");
}

/* Writes anchor.json, for a supervisor that finds this directory without a record. */
bool save_anchor_file(struct run *run) {
  char text[4096 + 6 * SCOPE_SIZE]; /* an escaped character takes six bytes */
  struct json json = {.data = text, .size = sizeof text};
  json_key_number(&json, "{\"protocol\":", PROTOCOL);
  json_key_string(&json, ",\"runId\":", run->id);
  json_key_string(&json, ",\"instanceId\":", run->instance);
  json_identity(&json, ",\"anchor\":", &run->anchor);
  json_identity(&json, ",\"root\":", &run->child.id);
  json_key_string(&json, ",\"tier\":", tier(run));
  json_key_string(&json, ",\"cgroup\":", run->boundary.path);
  json_key_number(&json, ",\"cgroupInode\":\"", run->boundary.inode);
  json_key_string(&json, "\",\"kind\":", run->policy.service ? "service" : "task");
  json_key_string(&json, ",\"scope\":", run->scope);
  json_raw(&json, "}\n");
  return json_save(run->dir, "anchor.json", &json);
}

static _Noreturn void fail_start(struct run *run, enum step step, int error) {
  send_failed(run, run->owner, step, error);
  connections_finish(run, 1000);
  os_boundary_remove(&run->boundary);
  exit(1);
}

/* Prepares the run up to the gate. */
static void prepare_run(struct run *run, int fd, const char *run_id, const char *instance_dir, const char *cgroups, const char *note) {
  uint8_t *buffer = os_map(START_MAX + 4);
  struct frame start;
  connections_add_owner(run, fd);
  if (buffer == NULL || !read_start(fd, buffer, &start)) exit(1);
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

/* ---- the loop ---- */

static void out_nothing(struct run *run, struct out *out, const void *unused) {
  (void)run;
  (void)out;
  (void)unused;
}

void close_gate(struct run *run) {
  if (run->phase != GATED || run->gate_used || run->child.gate < 0) return;
  os_gate_discard(&run->child); /* no GO will come */
  run->gate_closed_at = os_now_ms();
}

/* Handles the child's first report: it is at the gate, or failed before. */
static void on_child_at_gate(struct run *run, enum step step, int error) {
  if (step == STEP_NONE && !os_identity(run->child.id.pid, &run->child.id)) step = STEP_FORK, error = ESRCH;
  if (step == STEP_NONE && !save_anchor_file(run)) step = STEP_DIRECTORY, error = errno;
  if (step == STEP_NONE) {
    run->ready = true;
    run->session = run->child.id.pid;
    if (run->owner != NULL) send_welcome(run, run->owner);
    return;
  }
  os_kill_gated_child(&run->child);
  remove_directory(run);
  if (run->owner == NULL) exit(1);
  fail_start(run, step, error);
}

/* Reads the child's reports: first that it is at the gate; after GO, that exec failed, or the end of the pipe if
 * exec succeeded. */
void read_status(struct run *run) {
  struct child_report report = {.step = STEP_FORK, .error = ECHILD};
  int news = os_child_report(&run->child, &report);
  if (news == 0) return;
  if (!run->ready && run->gate_closed_at == 0) {
    on_child_at_gate(run, (enum step)report.step, report.error);
    return;
  }
  if (news > 0 && report.step == STEP_NONE) return; /* at the gate, but too late */
  os_close(run->child.status);
  run->child.status = -1;
  if (!run->gate_used) return;
  if (news > 0) {
    run->failure = report;
    for (int i = 0; i < CONNECTIONS; i++)
      if (run->connections[i].fd >= 0 && run->connections[i].authenticated)
        send_failed(run, &run->connections[i], (enum step)report.step, report.error);
    return;
  }
  run->executed = true;
  run->phase = RUNNING;
  run->started_at = run->overall_from = run->output_at = os_now_ms();
  send_to_all(run, F_STARTED, out_nothing, NULL);
  input_write(run);
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
  if (os_now_ms() >= run->accept_at) p[P_LISTENER] = (struct os_poll){.fd = run->listener, .wants = OS_READ};
  p[P_STATUS] = (struct os_poll){.fd = run->child.status, .wants = OS_READ};
  for (int i = 0; i < 2; i++)
    if (stream_wants_read(&run->streams[i])) p[P_OUT + i] = (struct os_poll){.fd = run->streams[i].fd, .wants = OS_READ};
  /* OS_GONE is reported even if nothing is wanted: the last reader of the pipe is gone. */
  if (run->phase != GATED && (!run->pty || input_wants_write(run)))
    p[P_IN] = (struct os_poll){.fd = run->input.fd, .wants = input_wants_write(run) ? OS_WRITE : 0};
  if (run->leader_done || run->terminating) p[P_BOUNDARY] = (struct os_poll){.fd = run->boundary_events, .wants = OS_PRIORITY};
  for (int i = 0; i < CONNECTIONS; i++) {
    struct connection *c = &run->connections[i];
    /* Until the child is at the gate, requests of the owner wait in its socket; its hang-up is still seen. */
    short listen = run->ready || c != run->owner || run->gate_closed_at != 0 ? OS_READ : 0;
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
    if ((ready & (OS_READ | OS_GONE)) != 0 && !connection_read(run, c)) connection_drop(run, c);
  }
  if (p[P_LISTENER].ready != 0) connections_accept(run, os_now_ms());
  if (p[P_BOUNDARY].ready != 0) os_boundary_events_read(run->boundary_events);
  if (p[P_LEADER].ready != 0) run->leader_gone = true;
}

/* The launcher may read after any of these stores: the id is set last, so that an entry with an id is complete. */
static void publish_run(struct run *run, struct heartbeat_run *out) {
  bool due = run->active && (run->phase == RUNNING || run->gate_used) && !run->stop.set && !run->leader_done;
  const struct policy *policy = &run->policy;
  out->overall_at = due && policy->overall > 0 ? run->overall_from + policy->overall : 0;
  out->no_output_at = due && policy->no_output > 0 && run->withheld_since == 0 ? run->output_at + policy->no_output : 0;
  out->owner_loss = due && !policy->service ? policy->owner_loss : 0;
  out->owner_lost_at = run->owner == NULL ? run->owner_lost_at : 0;
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
    bool served = run->active && run->ready;
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
    died |= of[i][P_BOUNDARY].ready != 0 || run->leader_gone || run->terminating || run->more_to_reap;
  }
  if (p[0].ready != 0) read_stop_requests(events);
  if (died) reap_children();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) {
    if (!run->active) continue;
    now = os_now_ms();
    streams_settle(run, now);
    step_deadlines(run, now);
  }
}

void init_run(struct run *run) {
  *run = (struct run){.active = true, .dir = -1, .listener = -1, .boundary = {.cgroup = -1}, .boundary_events = -1, .phase = GATED,
                        .leader_code = -1, .leader_signal = -1, .leader_handle = -1, .kill_mode = "none"};
  for (int i = 0; i < CONNECTIONS; i++) run->connections[i].fd = -1;
}

int run_mode(const char *run_id, const char *instance_dir, int fd, const char *cgroups, const char *note, bool launched) {
  int events = os_events_open();
  if (events < 0 || !os_become_reaper() || !os_take_connection(fd)) return 1;
  if (!launched) os_harden_self(); /* otherwise the launcher has done so */
  struct run *run = runs;
  init_run(run);
  run->launcher = launched ? os_parent() : 0;
  cgroups_of_runs = cgroups;
  own_heartbeat = os_anchor_shared(sizeof *own_heartbeat);
  if (!os_identity(os_own_pid(), &run->anchor)) return 1;
  prepare_run(run, fd, run_id, instance_dir, cgroups, note);
  run->boundary_events = os_boundary_events(&run->boundary);
  run->check_at = os_now_ms() + CHECK_FIRST_MS;
  for (;;) loop_once(events);
}
