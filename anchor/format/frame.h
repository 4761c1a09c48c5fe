/* Frames and fields: docs/reference/anchor-protocol.md. Pure functions over memory. */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/parse-number.h"

#ifndef PROTOCOL /* a test builds the previous version */
#define PROTOCOL 2
#endif
#define FRAME_MAX (128u * 1024)
#define START_MAX (4u * 1024 * 1024)
#define LENGTH_SIZE 4u
#define FRAME_HEAD 5u /* length and type */
#define FIELD_HEAD 5u /* tag and length */

enum frame_type {
  F_HOLD = 1, F_START, F_HELLO, F_GO, F_STOP, F_WRITE, F_CLOSE_STDIN, F_RESIZE, F_ACK, F_POLICY, F_HEARTBEAT, F_STATUS, F_ABANDON, F_ADOPT,
  F_SIGNAL, F_MEMBERS, F_CALLER, F_WARM,
  F_WELCOME = 64, F_STARTED, F_FAILED, F_OUTPUT, F_STDIN, F_LEADER, F_STOPPING, F_SURVIVORS, F_EXITED, F_REFUSED,
  F_LAUNCHER, F_ANCHOR_LOST, F_ADOPTED, F_SIGNALLED, F_MEMBERS_ARE, F_CALLER_IS,
};

enum tag {
  T_PROTOCOL = 1, T_RUN_ID, T_INSTANCE_ID, T_INCARNATION, T_EPOCH, T_KEY, T_PHASE,
  T_ROOT_PID, T_ROOT_START, T_ROOT_UNIQUE, T_ANCHOR_PID, T_ANCHOR_START, T_ANCHOR_UNIQUE,
  T_TIER, T_TIER_NOTE, T_CGROUP, T_CGROUP_INODE, T_STREAM, T_OFFSET,
  T_START = 21, T_END, T_DROPPED, T_CLOSED, T_DATA, T_LIMIT, T_REASON, T_ACTOR, T_REQUEST_ID, T_GRACE_MS,
  T_CODE, T_SIGNAL, T_ERRNO, T_STEP, T_MESSAGE, T_CODE_NAME, T_JSON, T_ROWS, T_COLS,
  T_ARG = 48, T_ENV, T_CWD, T_UMASK, T_PTY, T_MERGE, T_STDIN, T_KIND, T_ON_ESCAPE, T_SETTLE_MS, T_DRAIN_MS,
  T_KILL_REPORT_MS, T_OVERALL_MS, T_NO_OUTPUT_MS, T_OWNER_LOSS_MS, T_BACKSTOP_MS,
  T_OUT_BOUND, T_OUT_POLICY, T_ERR_BOUND, T_ERR_POLICY,
  T_OUT_START = 70, T_OUT_END, T_OUT_ACKED, T_OUT_DROPPED, T_ERR_START, T_ERR_END, T_ERR_ACKED, T_ERR_DROPPED,
  T_OUT_CLOSED, T_ERR_CLOSED, T_WITHHELD, T_OUT_WITHHELD, T_ERR_WITHHELD, T_ELAPSED_MS,
  T_MEMORY_BYTES, T_PIDS, T_MILLI_CPUS, T_MEMBER, T_COUNT, T_PROCESS, T_SCOPE,
  T_LOST = 92, T_VERBATIM, T_CALLER, T_WARM,
};

struct frame {
  uint8_t type;
  const uint8_t *fields;
  size_t length;
};

struct field {
  uint8_t tag;
  const uint8_t *data;
  uint32_t length;
};

/* The values of T_PHASE. */
enum { PHASE_GATED = 1, PHASE_RUNNING, PHASE_EXITING };

/* Reads a number of four bytes, such as a length. */
uint32_t wire_u32(const uint8_t *data);
/* Returns the bytes taken from `data`; 0: incomplete; -1: malformed, the connection must be closed. */
long frame_take(const uint8_t *data, size_t have, size_t max, struct frame *out);
/* 1: a field; 0: the end; -1: malformed. `at` starts at 0. */
int field_next(const struct frame *frame, size_t *at, struct field *out);
bool frame_well_formed(const struct frame *frame);
/* False if the value is not 8 bytes. */
bool field_number(const struct field *field, uint64_t *out);
/* Copies text, NUL-terminated. False if too long or with a NUL inside. */
bool field_text(const struct field *field, char *out, size_t size);
/* Reads the first field of that tag. */
bool frame_number(const struct frame *frame, uint8_t tag, uint64_t *out);
bool frame_text(const struct frame *frame, uint8_t tag, char *out, size_t size);
/* Milliseconds, at most TIME_MAX. All times in frames are read with this function. */
bool frame_time(const struct frame *frame, uint8_t tag, uint64_t *out);
/* Also false if no process can have this pid. */
bool field_pid(const struct field *field, int32_t *out);
bool frame_pid(const struct frame *frame, uint8_t tag, int32_t *out);

/* A frame being built. After an overflow the frame is not sent. */
struct out {
  uint8_t *data;
  size_t size, used, frame_at;
  bool overflow;
};

void out_begin(struct out *out, uint8_t type);
void out_bytes(struct out *out, uint8_t tag, const void *data, size_t length);
void out_number(struct out *out, uint8_t tag, uint64_t value);
void out_text(struct out *out, uint8_t tag, const char *text);
/* False, and the frame is removed, if it did not fit. */
bool out_end(struct out *out);

#endif
