/* Memory that an anchor shares with its launcher. The anchor writes that it runs, and when each of its runs must
 * end. The launcher reads it while the anchor is stopped, which can be between any two instructions. */
#ifndef HEARTBEAT_H
#define HEARTBEAT_H

#include <stdbool.h>

#include "os/os.h"

#define RUNS_MAX 8

/* Times are values of `os_now_ms`; 0: none. */
struct heartbeat_run {
  char id[64]; /* empty: none */
  struct identity root, owner;
  bool owned; /* its owner is connected; `owner.pid` is 0 if the owner cannot be identified */
  uint64_t grace, stop_at, overall_at, no_output_at;
  uint64_t owner_loss; /* how long it may run without an owner; 0: it is a service */
  uint64_t owner_lost_at;
  char reason[32], actor[256], request[128]; /* of the stop */
};

struct heartbeat {
  uint64_t beat; /* at least every five seconds */
  struct heartbeat_run runs[RUNS_MAX];
};

#endif
