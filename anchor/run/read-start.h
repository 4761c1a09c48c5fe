/* Reads START and WARM. */
#ifndef READ_START_H
#define READ_START_H

#include "run/run.h"

#define WORDS_MAX (START_MAX / FIELD_HEAD + 2) /* of argv and environment, each with a final NULL */

/* The command of START. The child of a warm anchor, which was forked before START, reads it in shared memory. */
struct command {
  struct child_spec spec;
  char cwd[4096], text[START_MAX];
  char *words[WORDS_MAX];
};

/* Reads exactly one frame, and waits for it; the loop reads the rest. */
bool read_frame(int fd, uint8_t *buffer, struct frame *frame);
/* Both WARM and START name the run, its instance and its key. */
bool read_names(struct run *run, const struct frame *frame);
bool read_command(struct run *run, const struct frame *start, struct command *command);
/* Returns false if no limit is requested. */
bool read_limits(const struct frame *start, uint64_t limits[LIMITS]);

#endif
