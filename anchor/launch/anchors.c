/* The anchors of a launcher: each is a child, until it has ended its run or has died. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"
#include "modes/modes.h"

#define ANCHORS_FIRST 64 /* the list grows by doubling */
#define REAP_ROUND 4096

bool anchor_is_lost(const struct anchor *anchor) {
  return anchor->state == ANCHOR_LOST || anchor->state == ANCHOR_LOST_ZOMBIE;
}

const char *anchor_run(const struct anchor *anchor, int at) {
  if (at < 0) return anchor->run_id;
  if (anchor->heartbeat == NULL || anchor->heartbeat->runs[at].id[0] == 0) return NULL;
  return strcmp(anchor->heartbeat->runs[at].id, anchor->run_id) == 0 ? NULL : anchor->heartbeat->runs[at].id;
}

/* Where the pid is in the list, or belongs. */
static size_t pid_place(const struct launcher *launcher, os_pid pid) {
  size_t low = 0, high = launcher->pid_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (launcher->pids[middle] < pid) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool anchor_has_pid(os_pid pid, const void *of) {
  const struct launcher *launcher = of;
  size_t at = pid_place(launcher, pid);
  return at < launcher->pid_count && launcher->pids[at] == pid;
}

static void pid_add(struct launcher *launcher, os_pid pid) {
  size_t at = pid_place(launcher, pid);
  memmove(launcher->pids + at + 1, launcher->pids + at, (launcher->pid_count++ - at) * sizeof pid);
  launcher->pids[at] = pid;
}

static void pid_remove(struct launcher *launcher, os_pid pid) {
  size_t at = pid_place(launcher, pid);
  memmove(launcher->pids + at, launcher->pids + at + 1, (--launcher->pid_count - at) * sizeof pid);
}

size_t anchors_left(const struct launcher *launcher) {
  size_t count = 0;
  for (size_t i = 0; i < launcher->anchor_count; i++) count += launcher->anchors[i].state != ANCHOR_SWEPT_ZOMBIE;
  return count;
}

void anchor_forget(struct launcher *launcher, size_t at) {
  struct anchor *anchor = &launcher->anchors[at];
  if (anchor->heartbeat != NULL) os_unmap(anchor->heartbeat, sizeof *anchor->heartbeat);
  os_anchor_release(anchor->kept);
  *anchor = launcher->anchors[--launcher->anchor_count];
}

static int become_anchor(const struct os_anchor_start *start, int connection) {
  return run_mode(start->run_id, start->directory, connection, start->cgroups, start->note, true);
}

static bool make_room(struct launcher *launcher) {
  if (launcher->anchor_count < launcher->anchor_room) return true;
  size_t room = launcher->anchor_room == 0 ? ANCHORS_FIRST : launcher->anchor_room * 2;
  struct anchor *more = realloc(launcher->anchors, room * sizeof *more);
  if (more == NULL) return false;
  launcher->anchors = more;
  os_pid *pids = realloc(launcher->pids, room * sizeof *pids);
  if (pids == NULL) return false;
  launcher->pids = pids;
  launcher->anchor_room = room;
  return true;
}

void anchor_start(struct launcher *launcher, int connection, const char *run_id, bool warm) {
  if (!make_room(launcher)) return;
  struct heartbeat *heartbeat = os_map_shared(sizeof *heartbeat);
  if (heartbeat != NULL) heartbeat->beat = os_now_ms(); /* otherwise the anchor is not watched */
  const struct os_anchor_start start = {
      .run_id = run_id, .directory = launcher->directory, .cgroups = launcher->have_cgroup ? launcher->runs_cgroup : NULL,
      .note = launcher->note, .connection = connection, .shared = heartbeat, .shared_size = sizeof *heartbeat,
      .title = launcher->title, .title_size = launcher->title_size, .warm = warm,
  };
  void *kept;
  os_pid pid = os_anchor_start(&start, become_anchor, &kept);
  if (pid < 0) {
    if (heartbeat != NULL) os_unmap(heartbeat, sizeof *heartbeat);
    return;
  }
  struct anchor *anchor = &launcher->anchors[launcher->anchor_count++];
  *anchor = (struct anchor){.pid = pid, .kill_mode = "pid", .heartbeat = heartbeat, .kept = kept};
  snprintf(anchor->run_id, sizeof anchor->run_id, "%s", run_id);
  pid_add(launcher, pid);
}

void anchor_lose(struct launcher *launcher, struct anchor *anchor, enum anchor_state state, int64_t code, int signal) {
  anchor->state = state;
  anchor->lost_at = os_now_ms();
  anchor->code = code;
  anchor->signal = signal;
  launcher->clean_pause = 0; /* its processes are ended at once */
  launcher->child_ended = true;
  clients_send_lost(launcher, anchor);
}

static void anchor_reaped(struct launcher *launcher, size_t at, const struct os_ended *ended) {
  struct anchor *anchor = &launcher->anchors[at];
  switch (anchor->state) {
    case ANCHOR_ALIVE:
      if (ended->code == 0 || ended->code == ANCHOR_NOT_STARTED) anchor_forget(launcher, at);
      else anchor_lose(launcher, anchor, ANCHOR_LOST, ended->code < 0 ? 0 : ended->code, ended->signal);
      break;
    case ANCHOR_LOST_ZOMBIE: anchor->state = ANCHOR_LOST; break;
    case ANCHOR_SWEPT_ZOMBIE: anchor_forget(launcher, at); break;
    case ANCHOR_LOST: break; /* reaped before, so the pid is another process */
  }
}

void anchors_reap(struct launcher *launcher) {
  struct os_ended ended;
  for (int reaped = 0; reaped < REAP_ROUND && os_next_ended(&ended) > 0; reaped++) {
    os_reap(ended.pid);
    launcher->child_ended = true;
    orphan_reaped(launcher, ended.pid);
    if (!anchor_has_pid(ended.pid, launcher)) continue;
    pid_remove(launcher, ended.pid);
    for (size_t i = 0; i < launcher->anchor_count; i++) {
      if (launcher->anchors[i].pid != ended.pid || launcher->anchors[i].state == ANCHOR_LOST) continue;
      anchor_reaped(launcher, i, &ended);
      break;
    }
  }
}
