/* Opens an anchor for a mode that signals it, only if it is the recorded one. */
#include <errno.h>
#include <string.h>

#include "modes/modes.h"
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
