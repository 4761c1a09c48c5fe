/* Ends the processes of dead anchors, which are children of the launcher: it is the subreaper above the anchors. */
#include <errno.h>
#include <stdio.h>

#include "format/json-write.h"
#include "launch/launch.h"
#include "os/kill-tree.h"

/* ---- processes that do not die ---- */

void orphan_reaped(struct launcher *launcher, os_pid pid) {
  for (int i = 0; i < launcher->stuck_count; i++)
    if (launcher->stuck[i].pid == pid) launcher->stuck[i--] = launcher->stuck[--launcher->stuck_count];
}

/* Adds those of the first `count` members that are our own children. */
static void add_stuck(struct launcher *launcher, long count, uint64_t now) {
  for (long i = 0; i < count && launcher->stuck_count < STUCK_MAX; i++) {
    bool known = members[i].ppid != launcher->self.pid;
    for (int j = 0; j < launcher->stuck_count; j++) known |= launcher->stuck[j].pid == members[i].id.pid;
    if (!known) launcher->stuck[launcher->stuck_count++] = (struct stuck){.pid = members[i].id.pid, .since = now};
  }
}

struct expected {
  const struct launcher *launcher;
  uint64_t when;
};

/* True for anchors, and for processes that were stuck at that time. */
static bool is_expected(os_pid pid, const void *of) {
  const struct expected *expected = of;
  const struct launcher *launcher = expected->launcher;
  for (int i = 0; i < launcher->stuck_count; i++)
    if (launcher->stuck[i].pid == pid) return launcher->stuck[i].since + STUCK_MS <= expected->when;
  return anchor_has_pid(pid, launcher);
}

static long count_unexpected(const struct launcher *launcher, uint64_t when) {
  const struct expected expected = {.launcher = launcher, .when = when};
  return os_count_children(is_expected, &expected);
}

bool orphans_are_stuck(const struct launcher *launcher, uint64_t now) {
  for (size_t i = 0; i < launcher->anchor_count; i++) {
    const struct anchor *anchor = &launcher->anchors[i];
    if (anchor->state == ANCHOR_ALIVE || (anchor_is_lost(anchor) && anchor->lost_at + STUCK_MS > now)) return false;
  }
  return count_unexpected(launcher, now) == 0;
}

/* ---- swept.json ---- */

int run_directory_open(const struct launcher *launcher, const char *run_id) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%.800s/runs/%s", launcher->directory, run_id);
  return os_directory_open(path);
}

void save_swept_run(const struct launcher *launcher, const struct anchor *anchor, const char *run_id, const char *emptiness) {
  char text[512];
  struct json json = {.data = text, .size = sizeof text};
  struct os_file_info info;
  char warm[RUN_ID_MAX + 2]; /* the directory of an anchor that died before it read START */
  snprintf(warm, sizeof warm, ".%s", run_id);
  int dir = run_directory_open(launcher, run_id);
  if (dir < 0) dir = run_directory_open(launcher, warm);
  if (dir < 0) return;
  if (os_file_info_at(dir, "swept.json", &info)) { /* written by the process that ended the run: keep it */
    os_close(dir);
    return;
  }
  json_key_string(&json, "{\"runId\":", run_id);
  json_raw(&json, ",\"anchorSignal\":");
  if (anchor->signal != 0) json_number(&json, (uint64_t)anchor->signal);
  else json_raw(&json, "null");
  json_key_number(&json, ",\"anchorCode\":", (uint64_t)anchor->code);
  json_key_number(&json, ",\"killed\":", (uint64_t)anchor->killed);
  json_key_string(&json, ",\"killMode\":", anchor->killed == 0 ? "none" : anchor->kill_mode);
  json_key_string(&json, ",\"emptiness\":", emptiness);
  json_raw(&json, "}\n");
  json_save(dir, "swept.json", &json);
  os_close(dir);
}

void save_swept(const struct launcher *launcher, const struct anchor *anchor, const char *emptiness) {
  for (int at = -1; at < RUNS_MAX; at++)
    if (anchor_run(anchor, at) != NULL) save_swept_run(launcher, anchor, anchor_run(anchor, at), emptiness);
}

/* ---- the cgroups of all runs of an anchor ---- */

static bool find_boundary(const struct launcher *launcher, const struct anchor *anchor, int at, struct boundary *out) {
  errno = ENOENT;
  return launcher->have_cgroup && anchor_run(anchor, at) != NULL && os_boundary_find(out, launcher->runs_cgroup, anchor_run(anchor, at));
}

static void kill_boundaries(const struct launcher *launcher, struct anchor *anchor) {
  struct boundary boundary;
  for (int at = -1; at < RUNS_MAX; at++) {
    if (!find_boundary(launcher, anchor, at, &boundary)) continue;
    if (os_boundary_kill(&boundary)) anchor->kill_mode = os_boundary_kind(&boundary);
    os_boundary_close(&boundary);
  }
}

/* For systems without a subreaper, where the processes of a dead anchor are not our children. */
static long count_in_boundaries(const struct launcher *launcher, const struct anchor *anchor) {
  struct boundary boundary;
  long total = 0;
  for (int at = -1; at < RUNS_MAX; at++) {
    if (!find_boundary(launcher, anchor, at, &boundary)) continue;
    long count = os_boundary_members(&boundary, members, tree_max(), NULL, NULL);
    for (long i = 0; i < count; i++) total += !tree_dead(&members[i]);
    if (count > 0) tree_release(count);
    os_boundary_close(&boundary);
  }
  return total;
}

/* The weakest emptiness among the runs of the anchor. */
static enum emptiness boundaries_emptiness(const struct launcher *launcher, const struct anchor *anchor) {
  struct boundary boundary;
  enum emptiness least = EMPTY;
  for (int at = -1; at < RUNS_MAX; at++) {
    if (anchor_run(anchor, at) == NULL) continue;
    bool opened = find_boundary(launcher, anchor, at, &boundary);
    enum emptiness found = opened ? os_boundary_emptiness(&boundary) : os_boundary_missing(errno);
    if (found < least) least = found;
    if (opened) os_boundary_close(&boundary);
  }
  return least;
}

static void remove_boundaries(const struct launcher *launcher, const struct anchor *anchor) {
  struct boundary boundary;
  for (int at = -1; at < RUNS_MAX; at++)
    if (find_boundary(launcher, anchor, at, &boundary)) os_boundary_remove(&boundary);
}

/* ---- ending them ---- */

static long collect_orphans(void *of, int signal) {
  struct launcher *launcher = of;
  struct member self;
  os_self(&self);
  anchors_reap(launcher); /* the zombies of a fork bomb must not use up all pids */
  long count = os_descendants(&self, members, tree_max(), anchor_has_pid, launcher, signal);
  return count < 0 ? 0 : count;
}

static bool any_lost(const struct launcher *launcher) {
  for (size_t i = 0; i < launcher->anchor_count; i++)
    if (anchor_is_lost(&launcher->anchors[i])) return true;
  return false;
}

static void kill_orphans(struct launcher *launcher, uint64_t now) {
  long left = collect_orphans(launcher, 0); /* counted before they are killed, for swept.json */
  tree_release(left);
  for (size_t i = 0; i < launcher->anchor_count; i++) {
    struct anchor *anchor = &launcher->anchors[i];
    if (!anchor_is_lost(anchor)) continue;
    long inside = left == 0 ? count_in_boundaries(launcher, anchor) : 0;
    if (inside > anchor->killed) anchor->killed = inside;
    kill_boundaries(launcher, anchor);
  }
  long killed = tree_kill(collect_orphans, launcher);
  add_stuck(launcher, killed, now); /* before the next reaping, which removes those that died */
  tree_release(killed);
  /* If several anchors died, it is not known which one a process belonged to; the count is only for swept.json. */
  for (size_t i = 0; i < launcher->anchor_count; i++)
    if (anchor_is_lost(&launcher->anchors[i]) && left > launcher->anchors[i].killed) launcher->anchors[i].killed = left;
}

/* Records the end of the runs of an anchor if they are empty. `left`: number of our children that are not anchors.
 * Returns true if the anchor was removed from the list. */
static bool sweep_anchor(struct launcher *launcher, size_t at, long left, uint64_t now) {
  struct anchor *anchor = &launcher->anchors[at];
  if (!anchor_is_lost(anchor)) return false;
  bool empty = left == 0 || (launcher->stuck_count > 0 && count_unexpected(launcher, anchor->lost_at) == 0);
  enum emptiness found = empty ? boundaries_emptiness(launcher, anchor) : OCCUPIED;
  if (found == OCCUPIED || (found == UNSEEN && anchor->lost_at + UNSEEN_LIMIT_MS > now)) return false;
  remove_boundaries(launcher, anchor);
  save_swept(launcher, anchor, found == EMPTY ? "proven" : "unproven");
  if (anchor->state == ANCHOR_LOST) {
    anchor_forget(launcher, at);
    return true;
  }
  anchor->state = ANCHOR_SWEPT_ZOMBIE;
  return false;
}

bool orphans_end(struct launcher *launcher, uint64_t now) {
  /* A process becomes our child when its anchor ends. Listing the children takes time for each anchor, so they are not
   * listed at every event. */
  if (!launcher->child_ended && launcher->clean_pause == 0) return false;
  launcher->child_ended = false;
  /* Counted on the raw list including zombies: a tree that keeps forking always has one entry until it is reaped. */
  if (!any_lost(launcher) && os_count_children(anchor_has_pid, launcher) == 0) return false;
  os_raise_priority(true);
  kill_orphans(launcher, now);
  anchors_reap(launcher);
  long left = os_count_children(anchor_has_pid, launcher);
  for (size_t i = 0; i < launcher->anchor_count;)
    if (!sweep_anchor(launcher, i, left, now)) i++;
  bool more = left != 0 || any_lost(launcher);
  if (!more) os_raise_priority(false);
  return more;
}
