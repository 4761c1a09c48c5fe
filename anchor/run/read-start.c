/* Reads START and WARM: the command, its environment, the policy and the limits of a run. */
#include "run/read-start.h"

#include <errno.h>
#include <string.h>

#define START_PATIENCE_MS 10000

bool read_frame(int fd, uint8_t *buffer, struct frame *frame) {
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
  return frame_take(buffer, have, START_MAX, frame) > 0 && frame_well_formed(frame);
}

/* Room for the strings of START. Each use takes the beginning of what is left. */
struct room {
  char *text, **list;
  size_t left;
};

/* Copies fields to C strings. They cannot stay in place, because the byte after each is the next field's tag. */
static char **read_string_list(const struct frame *frame, uint8_t tag, struct room *room) {
  struct field field;
  char **list = room->list;
  size_t at = 0;
  while (field_next(frame, &at, &field) > 0) {
    if (field.tag != tag) continue;
    if (room->left < 2 || memchr(field.data, 0, field.length) != NULL) return NULL;
    memcpy(room->text, field.data, field.length);
    room->text[field.length] = 0;
    *room->list++ = room->text;
    room->left--;
    room->text += field.length + 1;
  }
  *room->list++ = NULL;
  room->left--;
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

bool read_names(struct run *run, const struct frame *frame) {
  char id[sizeof run->id];
  const uint64_t protocol = number_or(frame, T_PROTOCOL, 0);
  return protocol >= 1 && protocol <= PROTOCOL && frame_text(frame, T_RUN_ID, id, sizeof id) && strcmp(id, run->id) == 0 &&
         frame_text(frame, T_INSTANCE_ID, run->instance, sizeof run->instance) &&
         frame_text(frame, T_KEY, run->key, sizeof run->key) && strlen(run->key) >= 32;
}

bool read_command(struct run *run, const struct frame *start, struct command *command) {
  struct room room = {.text = command->text, .list = command->words, .left = WORDS_MAX};
  struct child_spec *spec = &command->spec;
  uint64_t umask_value = 0;
  const uint64_t rows = number_or(start, T_ROWS, 24), cols = number_or(start, T_COLS, 80);
  run->epoch = number_or(start, T_EPOCH, 0);
  run->pty = number_or(start, T_PTY, 0) == 1;
  spec->argv = read_string_list(start, T_ARG, &room);
  spec->env = spec->argv == NULL ? NULL : read_string_list(start, T_ENV, &room);
  spec->cwd = command->cwd;
  spec->set_umask = frame_number(start, T_UMASK, &umask_value);
  spec->umask = umask_value & 0777;
  spec->pty = run->pty;
  spec->merge = number_or(start, T_MERGE, 0) == 1;
  spec->stdin_null = number_or(start, T_STDIN, 1) == 0;
  spec->verbatim = number_or(start, T_VERBATIM, 0) == 1;
  spec->rows = (uint16_t)rows;
  spec->cols = (uint16_t)cols;
  if (!frame_text(start, T_SCOPE, run->scope, sizeof run->scope)) run->scope[0] = 0;
  read_policy(run, start);
  return spec->env != NULL && spec->argv[0] != NULL && frame_text(start, T_CWD, command->cwd, sizeof command->cwd) && run->epoch != 0 &&
         is_terminal_size(rows, cols);
}

bool read_limits(const struct frame *start, uint64_t limits[LIMITS]) {
  limits[LIMIT_MEMORY] = number_or(start, T_MEMORY_BYTES, 0);
  limits[LIMIT_PIDS] = number_or(start, T_PIDS, 0);
  limits[LIMIT_CPUS] = number_or(start, T_MILLI_CPUS, 0);
  return (limits[LIMIT_MEMORY] | limits[LIMIT_PIDS] | limits[LIMIT_CPUS]) != 0;
}
