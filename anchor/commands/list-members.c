/* MEMBERS: lists the processes of a run, the same as those that a stop ends. */
#include "commands/commands.h"
#include "run/end/end.h"
#include "os/kill-tree.h"

#include <string.h>

#define LISTED_MAX 512
#define NUMBERS 7

static void out_member(struct out *out, const struct member *member) {
  const uint64_t numbers[NUMBERS] = {(uint64_t)member->id.pid,   member->id.start, member->id.unique, (uint64_t)member->ppid,
                                     (uint64_t)member->sid, member->cpu_ms,   member->rss_kb};
  uint8_t bytes[8 * NUMBERS + 1 + COMMAND_SIZE];
  for (size_t i = 0; i < 8 * NUMBERS; i++) bytes[i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
  bytes[8 * NUMBERS] = (uint8_t)member->state;
  size_t length = strnlen(member->command, COMMAND_SIZE);
  memcpy(bytes + 8 * NUMBERS + 1, member->command, length);
  out_bytes(out, T_PROCESS, bytes, 8 * NUMBERS + 1 + length);
}

void handle_members(struct run *run, struct connection *connection, const struct frame *frame) {
  char request[sizeof run->stop.request]; /* copied, because collecting members may drop the connection that holds the frame */
  if (!frame_text(frame, T_REQUEST_ID, request, sizeof request)) {
    refuse(run, connection, "bad-frame", "MEMBERS needs REQUEST_ID");
    return;
  }
  long count = collect(run, 0);
  struct out out = connection_out(connection, F_MEMBERS_ARE);
  out_text(&out, T_REQUEST_ID, request);
  for (long i = 0, listed = 0; i < count && listed < LISTED_MAX; i++) {
    if (tree_dead(&members[i])) continue;
    out_member(&out, &members[i]);
    listed++;
  }
  tree_release(count);
  connection_send(run, connection, &out);
}
