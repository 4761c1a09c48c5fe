/* `anchor limits`: which limits a run can have here, one JSON line each. */
#include <stdio.h>

#include "modes/process-json.h"
#include "modes/modes.h"

int limits_mode(void) {
  for (int kind = 0; kind < LIMITS; kind++) {
    char where[PATH_SIZE] = "";
    const char *how = os_limits_probe((enum limit)kind, where, sizeof where);
    struct json json = evidence_begin();
    json_key_string(&json, "{\"controller\":", os_limit_name((enum limit)kind));
    json_key_string(&json, ",\"how\":", how);
    json_key_string(&json, ",\"where\":", how == NULL ? NULL : where);
    json_raw(&json, "}");
    evidence_print(&json);
  }
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
