/* `anchor continue`: sends SIGCONT to an anchor. */
#include <stdio.h>
#include <string.h>

#include "modes/process-json.h"
#include "modes/modes.h"
#include "format/parse-number.h"

int continue_mode(int argc, char **argv) {
  struct identity id = {0};
  const char *path = NULL, *run = NULL;
  bool good = argc % 2 == 0;
  for (int i = 0; good && i + 1 < argc; i += 2) {
    uint64_t pid = 0;
    if (strcmp(argv[i], "--pid") == 0) good = number_within(argv[i + 1], INT32_MAX, &pid), id.pid = (os_pid)pid;
    else if (strcmp(argv[i], "--start") == 0) good = number_within(argv[i + 1], UINT64_MAX, &id.start);
    else if (strcmp(argv[i], "--unique") == 0) good = number_within(argv[i + 1], UINT64_MAX, &id.unique);
    else if (strcmp(argv[i], "--path") == 0) path = argv[i + 1];
    else if (strcmp(argv[i], "--run") == 0) run = argv[i + 1];
    else good = false;
  }
  if (!good || id.pid == 0) {
    fprintf(stderr, "anchor continue: --pid N --start N [--unique N] [--path PATH --run ID]\n");
    return 2;
  }
  struct member anchor;
  const char *why = verify_anchor(&id, path, run, &anchor);
  int error = why == NULL ? os_signal(&anchor, OS_CONT) : 0;
  if (error != 0) why = strerror(error);
  char state[2] = {why == NULL ? anchor.state : 0, 0};
  struct json json = evidence_begin();
  json_raw(&json, why == NULL ? "{\"sent\":true" : "{\"sent\":false");
  json_key_string(&json, ",\"why\":", why);
  json_key_string(&json, ",\"state\":", state[0] == 0 ? NULL : state);
  json_raw(&json, "}");
  evidence_print(&json);
  os_release(&anchor);
  return fflush(stdout) == 0 ? 0 : 1;
}
