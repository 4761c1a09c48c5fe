/* Fuzzes the parser of frames. With clang: -fsanitize=fuzzer,address -DLIBFUZZER. Otherwise its own driver mutates
 * well-formed frames from a seed: fuzz-frame SEED ROUNDS. */
#include "format/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte that the parser returns, so that the sanitizer finds an address outside the input. */
static uint64_t touch(const uint8_t *data, size_t length) {
  uint64_t sum = 0;
  for (size_t i = 0; i < length; i++) sum += data[i];
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *exact = malloc(size > 0 ? size : 1); /* exactly as long as the input, so that one byte more is noticed */
  if (exact == NULL) abort();
  if (size > 0) memcpy(exact, data, size);
  volatile uint64_t sum = 0;
  size_t at = 0;
  struct frame frame;
  for (long taken; (taken = frame_take(exact + at, size - at, FRAME_MAX, &frame)) > 0; at += (size_t)taken) {
    if ((size_t)taken > size - at) abort();
    bool well = frame_well_formed(&frame);
    struct field field;
    size_t next = 0;
    int r;
    while ((r = field_next(&frame, &next, &field)) > 0) sum += touch(field.data, field.length);
    if (well != (r == 0)) abort();
    char text[16];
    uint64_t number = 0;
    int32_t pid = 0;
    for (int tag = 0; tag < 256; tag++) {
      if (frame_number(&frame, (uint8_t)tag, &number)) sum += number;
      if (frame_time(&frame, (uint8_t)tag, &number) && number > TIME_MAX) abort();
      if (frame_pid(&frame, (uint8_t)tag, &pid) && pid <= 0) abort();
      if (frame_text(&frame, (uint8_t)tag, text, sizeof text) && strlen(text) >= sizeof text) abort();
    }
  }
  free(exact);
  return 0;
}

#ifndef LIBFUZZER
static uint64_t state;

static uint64_t next_random(void) { /* xorshift */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* Half of them are at the limits of a number of some width. */
static uint64_t some_number(void) {
  uint64_t edge = UINT64_C(1) << (next_random() % 64);
  return next_random() % 2 ? next_random() : edge - next_random() % 3;
}

static uint8_t some_type(void) {
  static const uint8_t numeric[] = {F_STOP, F_RESIZE, F_POLICY, F_ADOPT, F_SIGNAL, F_ACK};
  return next_random() % 2 ? (uint8_t)next_random() : numeric[next_random() % sizeof numeric];
}

static uint8_t some_tag(void) {
  static const uint8_t numeric[] = {T_GRACE_MS, T_ROWS,        T_COLS,          T_OVERALL_MS, T_NO_OUTPUT_MS,
                                    T_OWNER_LOSS_MS, T_ROOT_PID, T_ROOT_START, T_SIGNAL,     T_OFFSET};
  return next_random() % 2 ? (uint8_t)next_random() : numeric[next_random() % sizeof numeric];
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
  unsigned long rounds = strtoul(argv[2], NULL, 10);
  static uint8_t memory[4096];
  for (unsigned long i = 0; i < rounds; i++) {
    struct out out = {.data = memory, .size = 64 + next_random() % (sizeof memory - 64)};
    for (int frames = (int)(next_random() % 4); frames >= 0; frames--) {
      out_begin(&out, some_type());
      for (int fields = (int)(next_random() % 6); fields > 0; fields--) {
        uint8_t bytes[64] = {0};
        if (next_random() % 2) out_number(&out, some_tag(), some_number());
        else out_bytes(&out, some_tag(), bytes, next_random() % sizeof bytes);
      }
      out_end(&out);
    }
    size_t size = out.used;
    for (int hits = (int)(next_random() % 8); hits > 0 && size > 0; hits--) memory[next_random() % size] ^= (uint8_t)next_random();
    if (next_random() % 4 == 0 && size > 0) size = next_random() % size;
    LLVMFuzzerTestOneInput(memory, size);
  }
  printf("%lu inputs\n", rounds);
  return 0;
}
#endif
