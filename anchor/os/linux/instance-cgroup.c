/* Linux: the cgroups of an instance: one for its supervisor, one for its runs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/linux/linux.h"

#define SUP_MAX (64 * 1024)

static char came_from[PATH_SIZE]; /* the cgroup this process was started in */

static void cut_end(char *text, const char *end) {
  size_t length = strlen(text), cut = strlen(end);
  if (length >= cut && strcmp(text + length - cut, end) == 0) text[length - cut] = 0;
}

bool os_boundaries_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  char own[PATH_SIZE], here[PATH_SIZE], base[PATH_SIZE], sup[PATH_SIZE], leaf[96], seat[112];
  if (test_disable.cgroup) {
    snprintf(note, note_size, "cgroups are disabled");
    return false;
  }
  if (!cgroup_own(here, sizeof here)) {
    if (errno == ENOENT) snprintf(note, note_size, "no cgroup v2 is mounted");
    else if (os_boundary_path_of(getpid(), own, sizeof own)) snprintf(note, note_size, "our cgroup %.100s is not visible here", own);
    return false;
  }
  snprintf(leaf, sizeof leaf, "/holdfast-%s", place);
  snprintf(seat, sizeof seat, "%s/sup", leaf);
  cut_end(here, seat); /* a supervisor moved there when a limit was set */
  snprintf(came_from, sizeof came_from, "%s", here);
  cut_end(here, "/holdfast-gateway"); /* DelegateSubgroup of a systemd unit: the delegated cgroup is above it */
  bool fits = join(base, sizeof base, here, leaf) && join(sup, sizeof sup, base, "/sup") && join(runs, size, base, "/runs");
  char *step = base;
  if (!fits) {
    errno = ENAMETOOLONG;
  } else if ((mkdir(base, 0755) == 0 || errno == EEXIST) && (step = sup, mkdir(sup, 0755) == 0 || errno == EEXIST) &&
             (step = runs, mkdir(runs, 0755) == 0 || errno == EEXIST) &&
             (step = sup, write_in(sup, "cgroup.procs", "0"))) {
    char probe[PATH_SIZE + 32];
    snprintf(probe, sizeof probe, "%s/cgroup.kill", runs);
    if (access(probe, W_OK) == 0) return true;
    snprintf(note, note_size, "the kernel has no cgroup.kill (older than 5.14)");
    os_boundaries_leave(runs);
    return false;
  }
  const char *why = getenv("HOLDFAST_NO_SCOPE"); /* why the gateway has no delegated scope */
  snprintf(note, note_size, "cgroup %.100s: %s%s%s", step, strerror(errno), why == NULL ? "" : "; no scope: ", why == NULL ? "" : why);
  if (fits) os_boundaries_leave(runs);
  return false;
}

/* Moves the processes in `sup` back. A cgroup with enabled controllers accepts no processes: then they were enabled
 * for us, and are disabled. */
static void leave_sup(const char *sup, const char *const chain[3]) {
  static const char *const words[] = {"-memory", "-pids", "-cpu"};
  static char text[SUP_MAX];
  char path[PATH_SIZE + 32];
  if (!write_in(came_from, "cgroup.procs", "0") && errno == EBUSY)
    for (int i = 0; i < 9; i++) write_in(chain[i / 3], "cgroup.subtree_control", words[i % 3]);
  snprintf(path, sizeof path, "%s/cgroup.procs", sup);
  if (read_file(path, text, sizeof text) <= 0) return;
  char *rest = text;
  for (char *pid; (pid = strsep(&rest, "\n")) != NULL && *pid != 0;) write_in(came_from, "cgroup.procs", pid);
}

void os_boundaries_leave(const char *runs) {
  char base[PATH_SIZE], parent[PATH_SIZE], sup[PATH_SIZE + 8];
  snprintf(base, sizeof base, "%s", runs);
  char *slash = strrchr(base, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(parent, sizeof parent, "%s", base);
  slash = strrchr(parent, '/');
  if (slash == NULL) return;
  *slash = 0;
  snprintf(sup, sizeof sup, "%s/sup", base);
  if (rmdir(runs) != 0 && errno == EBUSY) { /* an abandoned run whose last process has died since left its cgroup */
    int dir = open(runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir >= 0) {
      remove_tree(dir);
      close(dir);
    }
    rmdir(runs);
  }
  leave_sup(sup, (const char *const[]){runs, base, parent});
  rmdir(sup);
  rmdir(base);
  for (int kind = 0; kind < LIMITS; kind++) {
    if (!os_limits_place((enum limit)kind, runs, base, sizeof base)) continue;
    int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0) continue;
    remove_tree(dir);
    close(dir);
    rmdir(base);
  }
}
