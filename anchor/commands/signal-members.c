/* SIGNAL: signals some of a run's processes; the run continues. */
#include "commands/commands.h"
#include "run/end/end.h"
#include "os/kill-tree.h"

#define NAMED_MAX 512

/* Copied, because collecting members may drop the connection that holds the frame. */
static struct identity named[NAMED_MAX];

/* Returns their number; -1 if one is not an identity, or there are too many. */
static long read_named(const struct frame *frame) {
  struct field field;
  size_t at = 0;
  long count = 0;
  while (field_next(frame, &at, &field) > 0) {
    if (field.tag != T_MEMBER) continue;
    os_pid pid;
    uint64_t start, unique;
    struct field part = {.data = field.data, .length = 8};
    if (field.length != 24 || count == NAMED_MAX || !field_pid(&part, &pid)) return -1;
    part.data += 8, field_number(&part, &start);
    part.data += 8, field_number(&part, &unique);
    named[count++] = (struct identity){.pid = pid, .start = start, .unique = unique};
  }
  return count;
}

static bool is_named(const struct identity *id, long count) {
  for (long i = 0; i < count; i++)
    if (os_same(&named[i], id)) return true;
  return false;
}

/* True if the run is being stopped or swept: then only the termination sends signals. */
static bool ends(struct run *run) { return run->phase != RUNNING || run->stop.set; }

void handle_signal(struct run *run, struct connection *connection, const struct frame *frame) {
  uint64_t number = 0, sent = 0;
  long wanted = read_named(frame);
  if (!frame_number(frame, T_SIGNAL, &number) || os_signal_of(number) == 0 || wanted < 0) {
    refuse(run, connection, "signal-bad", "SIGNAL needs TERM, KILL, STOP or CONT, and at most 512 processes");
    return;
  }
  long count = ends(run) ? 0 : collect(run, 0);
  bool over = ends(run); /* collecting the members may have changed the state */
  for (long i = 0; i < count && !over; i++)
    if (members[i].id.pid != run->child.id.pid && !tree_dead(&members[i]) && is_named(&members[i].id, wanted) &&
        os_signal(&members[i], os_signal_of(number)) == 0)
      sent++;
  tree_release(count);
  if (over) {
    refuse(run, connection, "signal-phase", "the run is not running, or is about to end");
    return;
  }
  struct out out = connection_out(connection, F_SIGNALLED);
  out_number(&out, T_COUNT, sent);
  connection_send(run, connection, &out);
}
