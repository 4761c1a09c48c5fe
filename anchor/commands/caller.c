/* The connection of a foreground client. The client reads the output of its run and writes to its input, and the run is stopped
 * when the client disconnects. The run needs no owner: a gateway may be restarted meanwhile. */
#include "commands/commands.h"
#include "run/end/end.h"

static void report_caller(struct run *run) {
  if (run->owner == NULL) return;
  struct out out = connection_out(run->owner, F_CALLER_IS);
  out_number(&out, T_COUNT, run->caller != NULL ? 1 : 0);
  connection_send(run, run->owner, &out);
}

bool is_callers_request(uint8_t type) { return type == F_WRITE || type == F_CLOSE_STDIN || type == F_RESIZE || type == F_ACK; }

void handle_caller(struct run *run, struct connection *connection) {
  struct connection *former = run->caller;
  connection->authenticated = true;
  run->caller = connection; /* set first, so that dropping the former caller does not stop the run */
  if (former != NULL) connection_drop(run, former);
  send_welcome(run, connection);
  report_caller(run);
}

void caller_lost(struct run *run) {
  run->caller = NULL;
  report_caller(run);
  if (!run->policy.service) {
    request_stop(run, "manual-cancel", "caller (left)", "", FOREVER);
    return;
  }
  /* Nothing acknowledges the output of a service any more, so it must not wait. */
  for (int i = 0; i < 2; i++) run->streams[i].spool.back_pressure = false;
}
