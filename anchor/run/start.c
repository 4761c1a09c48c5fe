/* Starts a run: START or WARM, the boundary, the child behind the gate, and its reports. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "modes/modes.h"
#include "run/read-start.h"

static _Noreturn void fail_start(struct run *run, enum step step, int error) {
  send_failed(run, run->owner, step, error);
  connections_finish(run, 1000);
  os_boundary_remove(&run->boundary);
  if (run->warm) remove_directory(run);
  exit(ANCHOR_NOT_STARTED);
}

/* The directory is created while the child goes to the gate; the loop sees when it arrives. */
static void prepare_cold(struct run *run, const struct frame *start, const char *instance_dir, const char *cgroups, const char *note) {
  uint64_t limits[LIMITS];
  struct command *command = os_map(sizeof *command);
  if (command == NULL) fail_start(run, STEP_SPEC, ENOMEM);
  if (!read_command(run, start, command)) fail_start(run, STEP_SPEC, EINVAL);
  os_boundary_open(&run->boundary, cgroups, run->id, note);
  (void)read_limits(start, limits);
  if (!os_limits_set(&run->boundary, limits, os_peer(run->owner->fd), run->limit_note, sizeof run->limit_note)) fail_start(run, STEP_LIMIT, errno);
  enum step step = os_spawn_gated(&command->spec, &run->boundary, &run->child);
  if (step != STEP_NONE) fail_start(run, step, errno);
  if (!open_directory(run, instance_dir)) {
    int error = errno;
    os_kill_gated_child(&run->child);
    if (error != EEXIST) remove_directory(run);
    fail_start(run, STEP_DIRECTORY, error);
  }
  if (!streams_open(run, start)) {
    os_kill_gated_child(&run->child);
    remove_directory(run);
    fail_start(run, STEP_STDIO, ENOMEM);
  }
  os_unmap(command, sizeof *command);
}

static struct command *late_command; /* the command of a warm anchor, in memory that is shared with its child */

/* The directory is created before the cgroup, and removed after it: so a cgroup without it is never that of a warm anchor. */
static void prepare_warm(struct run *run, const struct frame *warm, const char *instance_dir, const char *cgroups, const char *note) {
  run->warm = os_starts_warm;
  late_command = os_map_shared(sizeof *late_command);
  if (!run->warm || late_command == NULL) fail_start(run, STEP_SPEC, ENOMEM);
  late_command->spec = (struct child_spec){.late = true};
  if (!open_directory(run, instance_dir)) fail_start(run, STEP_DIRECTORY, errno);
  os_boundary_open(&run->boundary, cgroups, run->id, note);
  (void)os_limits_set(&run->boundary, (uint64_t[LIMITS]){0}, 0, run->limit_note, sizeof run->limit_note); /* none, so none is looked for at the end */
  enum step step = os_spawn_gated(&late_command->spec, &run->boundary, &run->child);
  if (step != STEP_NONE) fail_start(run, step, errno);
  if (streams_open(run, warm)) return;
  os_kill_gated_child(&run->child);
  fail_start(run, STEP_STDIO, ENOMEM);
}

void prepare_run(struct run *run, int fd, const char *run_id, const char *instance_dir, const char *cgroups, const char *note) {
  uint8_t *buffer = os_map(START_MAX + 4);
  struct frame frame;
  connections_add_owner(run, fd);
  if (buffer == NULL || !read_frame(fd, buffer, &frame) || (frame.type != F_START && frame.type != F_WARM)) exit(ANCHOR_NOT_STARTED);
  snprintf(run->id, sizeof run->id, "%s", run_id);
  if (!read_names(run, &frame)) fail_start(run, STEP_SPEC, EINVAL);
  if (frame.type == F_WARM) prepare_warm(run, &frame, instance_dir, cgroups, note);
  else prepare_cold(run, &frame, instance_dir, cgroups, note);
  os_unmap(buffer, START_MAX + 4);
}

static bool start_has_begun(const struct run *run) { return run->owner != NULL && os_readable(run->owner->fd) > 0; }

/* A warm anchor ends without a trace: it has no command. If START has begun, its run may be on record, and the directory
 * stays: its name shows that the command was not executed. */
static _Noreturn void discard_warm(struct run *run, bool start_begun) {
  os_kill_gated_child(&run->child);
  os_boundary_remove(&run->boundary);
  if (!start_begun) remove_directory(run);
  exit(ANCHOR_NOT_STARTED);
}

/* Its streams are pipes. The child closes its own ends of those that the command does not use. */
static bool open_late_streams(struct run *run, const struct frame *start, const struct child_spec *spec) {
  int *unused[] = {spec->stdin_null ? &run->child.in : NULL, spec->merge ? &run->child.err : NULL};
  for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
    if (unused[i] == NULL) continue;
    os_close(*unused[i]);
    *unused[i] = -1;
  }
  return streams_open(run, start);
}

/* Makes the warm anchor that of a run. Returns the step that failed, with errno. */
static enum step apply_start(struct run *run, const struct frame *start) {
  char key[sizeof run->key];
  uint64_t limits[LIMITS];
  memcpy(key, run->key, sizeof key);
  if (!name_directory(run)) return STEP_DIRECTORY;
  errno = EINVAL;
  if (!read_names(run, start) || strcmp(key, run->key) != 0) return STEP_SPEC;
  if (!read_command(run, start, late_command) || run->pty || read_limits(start, limits)) return STEP_SPEC;
  if (!open_late_streams(run, start, &late_command->spec)) return STEP_STDIO;
  return save_anchor_file(run) ? STEP_NONE : STEP_DIRECTORY;
}

static void out_nothing(struct run *run, struct out *out, const void *unused) {
  (void)run;
  (void)out;
  (void)unused;
}

void close_gate(struct run *run) {
  if (run->phase > GATED) return;
  if (run->warm) discard_warm(run, start_has_begun(run));
  os_gate_discard(&run->child); /* no GO will come */
  run->gate_closed_at = os_now_ms();
  run->phase = CLOSED;
}

/* The command was not executed, and the run ends with this failure. */
static void report_failure(struct run *run, struct child_report failure) {
  run->failure = failure;
  for (int i = 0; i < CONNECTIONS; i++)
    if (run->connections[i].fd >= 0 && run->connections[i].authenticated)
      send_failed(run, &run->connections[i], (enum step)failure.step, failure.error);
}

void take_start(struct run *run) {
  struct frame start;
  const bool has_begun = start_has_begun(run);
  uint8_t *buffer = run->phase == WARM ? os_map(START_MAX + 4) : NULL; /* before WARM, the connection can only have closed */
  if (buffer == NULL || !read_frame(run->owner->fd, buffer, &start) || start.type != F_START) discard_warm(run, has_begun);
  os_anchor_title(run->id);
  run->phase = GATED;
  enum step step = apply_start(run, &start);
  if (step != STEP_NONE) {
    report_failure(run, (struct child_report){.step = step, .error = errno});
    close_gate(run);
  }
  os_unmap(buffer, START_MAX + 4);
  os_unmap(late_command, sizeof *late_command); /* the child has its own mapping */
}

/* Handles the child's first report: it is at the gate, or failed before. */
static void on_child_at_gate(struct run *run, enum step step, int error) {
  if (step == STEP_NONE && !os_identity(run->child.id.pid, &run->child.id)) step = STEP_FORK, error = ESRCH;
  if (step == STEP_NONE) {
    run->phase = run->warm ? WARM : GATED;
    run->session = run->child.id.pid;
    if (run->owner != NULL) send_welcome(run, run->owner);
    if (run->owner != NULL) connection_flush(run->owner);
    if (run->warm) {
      os_file_prepare(run->dir, "anchor.json"); /* saved between START and GO */
      return;
    }
    /* While the owner commits the record. GO is read only afterwards. */
    if (save_anchor_file(run)) return;
    report_failure(run, (struct child_report){.step = STEP_DIRECTORY, .error = errno});
    close_gate(run);
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
    report_failure(run, report);
    return;
  }
  if (run->phase == OPENED) run->phase = RUNNING; /* otherwise a stop was faster */
  run->started_at = run->overall_from = run->output_at = os_now_ms();
  send_to_all(run, F_STARTED, out_nothing, NULL);
  input_write(run);
}
