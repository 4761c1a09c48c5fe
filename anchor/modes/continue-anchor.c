/* `anchor continue`: sends SIGCONT to an anchor. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/process-json.h"
#include "modes/modes.h"
#include "format/parse-number.h"
#include "os/kill-tree.h"

/* `.../runs/<run>`, with a dot before the name of a warm anchor's. A removed directory is still that of its run. */
static bool is_directory_of(const char *target, void *run) {
  static const char parent[] = "/runs/", deleted[] = " (deleted)";
  const char *name = strrchr(target, '/');
  size_t length = strlen(run), above = sizeof parent - 1;
  if (name == NULL || (size_t)(++name - target) < above || strncmp(name - above, parent, above) != 0) return false;
  if (*name == '.') name++;
  return strncmp(name, run, length) == 0 && (name[length] == 0 || strcmp(name + length, deleted) == 0);
}

/* Start times collide within a clock tick, and the anchor of another run executes the same program. Only the anchors of a
 * run keep its directory open: the anchor opens it before it reports itself, and START of a warm anchor renames it. */
const char *verify_anchor(const struct identity *id, const char *path, const char *run, struct member *out) {
  char program[PATH_SIZE] = "";
  *out = (struct member){.handle = -1};
  if (os_untouchable(id->pid)) return "the anchor is this process, one of its ancestors, or in its process group: refused";
  if (!os_open(id, out)) return errno == ESRCH ? "the anchor is gone" : "the anchor cannot be inspected: left alone";
  bool unique = id->unique != 0 && out->id.unique == id->unique;
  bool same_program = path != NULL && os_executable(id->pid, program, sizeof program) && strcmp(program, path) == 0;
  bool same_run = !unique && run != NULL && os_each_descriptor(id->pid, is_directory_of, (void *)run);
  const char *why = tree_dead(out)                                   ? "the anchor is a zombie"
                    : !unique && !same_program                       ? "start time matches but neither unique id nor program does: left alone"
                    : !unique && !same_run                           ? "start time and program match, but it does not have the directory of the run open: left alone"
                    : !unique && (!os_refresh(out) || tree_dead(out)) ? "the anchor is gone"
                                                                     : NULL;
  if (why != NULL) os_release(out);
  return why;
}

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
