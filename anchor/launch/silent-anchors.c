/* Watches through the heartbeats that anchors run. An anchor that does not run is sent SIGCONT. If the end of a run
 * is overdue and its anchor still does not run, the launcher ends the run. */
#include <errno.h>
#include <string.h>

#include "format/json-write.h"
#include "launch/launch.h"
#include "os/kill-tree.h"

#define WATCH_MS 2000
#define SILENT_MS 10000         /* a running anchor beats every five seconds */
#define CONTINUE_MS 2000        /* SIGCONT takes effect at once */
#define CONTINUE_AGAIN_MS 30000 /* a debugger may have detached */
#define OVERDUE_MS 2000         /* a running anchor ends its runs on time */
#define HELD_SLACK_MS 30000     /* longer than a live supervisor needs */
#define GRACE_MOST_MS 10000

/* One run of an anchor that does not run. */
struct overdue {
  const struct launcher *launcher;
  struct anchor *anchor;
  struct member process; /* the anchor's process */
  int at;                /* the run's place in the heartbeat */
  const struct heartbeat_run *run;
  struct enforced *end;
  struct boundary boundary; /* its cgroup is -1 if there is none */
};

static int runs_served(const struct anchor *anchor) {
  int count = 0;
  for (int i = 0; i < RUNS_MAX; i++) count += anchor->heartbeat->runs[i].id[0] != 0 && !anchor->ends[i].done;
  return count;
}

/* Writes silent.json; the next supervisor makes an event of it. */
static void save_silent_file(const struct launcher *launcher, const struct heartbeat_run *run, uint64_t silent_ms, bool continued) {
  char text[128];
  struct json json = {.data = text, .size = sizeof text};
  int dir = run_directory_open(launcher, run->id);
  if (dir < 0) return;
  json_key_number(&json, "{\"at\":", os_wall_ms());
  json_key_number(&json, ",\"silentMs\":", silent_ms);
  json_raw(&json, continued ? ",\"continued\":true}\n" : ",\"continued\":false}\n");
  json_save(dir, "silent.json", &json);
  os_close(dir);
}

/* Writes stop.json. A stop that the anchor had accepted keeps its reason. */
static void save_stop(const struct launcher *launcher, const struct heartbeat_run *run, const char *reason) {
  char text[4096];
  struct json json = {.data = text, .size = sizeof text};
  bool asked = run->stop_at != 0;
  int dir = run_directory_open(launcher, run->id);
  if (dir < 0) return;
  json_key_string(&json, "{\"reason\":", asked ? run->reason : reason);
  json_key_string(&json, ",\"actor\":", asked ? run->actor : "launcher");
  json_key_string(&json, ",\"requestId\":", asked ? run->request : "");
  json_raw(&json, ",\"withoutAnchor\":true}\n");
  json_save(dir, "stop.json", &json); /* failure is ignored: a full disk must not prevent the end */
  os_close(dir);
}

static void min_deadline(uint64_t at, const char *why, uint64_t *due, const char **reason) {
  if (at == 0 || at >= *due) return;
  *due = at;
  *reason = why;
}

/* Returns why the end of this run is overdue; NULL if it is not. */
static const char *overdue_reason(const struct heartbeat_run *run, struct enforced *end, uint64_t now, uint64_t slack) {
  struct identity owner;
  uint64_t due = UINT64_MAX, lost_at = run->owner_lost_at;
  const char *reason = NULL;
  bool gone = run->owned && run->owner.pid != 0 && !(os_identity(run->owner.pid, &owner) && os_same(&owner, &run->owner));
  if (!gone) end->owner_gone_at = 0;
  else if (end->owner_gone_at == 0) end->owner_gone_at = now;
  if (run->owned) lost_at = end->owner_gone_at;
  min_deadline(run->stop_at, "", &due, &reason);
  min_deadline(run->overall_at, "overall-timeout", &due, &reason);
  min_deadline(run->no_output_at, "no-output-timeout", &due, &reason);
  if (run->owner_loss > 0 && lost_at > 0) min_deadline(lost_at + run->owner_loss, "owner-lost", &due, &reason);
  return due != UINT64_MAX && now >= due + OVERDUE_MS + slack ? reason : NULL;
}

static bool is_root_of_another(os_pid pid, const void *of) {
  const struct overdue *overdue = of;
  struct identity now;
  for (int i = 0; i < RUNS_MAX; i++) {
    const struct heartbeat_run *other = &overdue->anchor->heartbeat->runs[i];
    if (i != overdue->at && other->id[0] != 0 && other->root.pid == pid) return !os_identity(pid, &now) || os_same(&now, &other->root); /* a process that may be the leader is spared */
  }
  return false;
}

/* Fills `members` with the processes of one run: all below an anchor that serves only it, else its cgroup, else the
 * tree of its leader. */
static long collect_run(void *of, int signal) {
  const struct overdue *overdue = of;
  if (runs_served(overdue->anchor) == 1) {
    long count = os_descendants(&overdue->process, members, tree_max(), NULL, NULL, signal);
    return count < 0 ? 0 : count;
  }
  if (overdue->boundary.cgroup >= 0) {
    long count = os_boundary_members(&overdue->boundary, members, tree_max(), NULL, NULL);
    for (long i = 0; signal != 0 && i < count; i++)
      if (members[i].state != 'T') os_signal(&members[i], signal);
    return count < 0 ? 0 : count;
  }
  if (!os_open(&overdue->run->root, &members[0])) return 0;
  if (tree_dead(&members[0])) {
    os_release(&members[0]);
    return 0;
  }
  if (signal != 0 && members[0].state != 'T') os_signal(&members[0], signal);
  long count = os_descendants(&members[0], members + 1, tree_max() - 1, is_root_of_another, overdue, signal);
  return count < 0 ? 1 : 1 + count;
}

/* Kills the processes of the run, then its anchor, which is last because it is the subreaper of the survivors. An
 * anchor that serves other runs is not killed; if it runs again, it finds this run empty. */
static void kill_run(struct overdue *overdue) {
  struct anchor *anchor = overdue->anchor;
  bool has_cgroup = overdue->boundary.cgroup >= 0, whole = has_cgroup && os_boundary_kill(&overdue->boundary);
  long count = tree_kill(collect_run, overdue), left = 0;
  tree_release(count);
  if (count > anchor->killed) anchor->killed = count;
  count = collect_run(overdue, 0);
  for (long i = 0; i < count; i++) left += !tree_dead(&members[i]);
  tree_release(count);
  if (left > 0) return; /* the next check tries again */
  if (whole) anchor->kill_mode = os_boundary_kind(&overdue->boundary);
  if (runs_served(anchor) == 1) {
    (void)os_signal(&overdue->process, OS_KILL); /* only zombies are below it; the launcher reaps them */
    return;
  }
  if (has_cgroup && !os_boundary_empty(&overdue->boundary)) return; /* the cgroup has processes that were not listed */
  save_swept_run(overdue->launcher, anchor, overdue->run->id, has_cgroup ? "proven" : "unproven");
  overdue->end->done = true;
}

static void ask_to_end(struct overdue *overdue, const char *reason, uint64_t now) {
  uint64_t grace = overdue->run->grace < GRACE_MOST_MS ? overdue->run->grace : GRACE_MOST_MS;
  overdue->end->kill_at = now + grace;
  save_stop(overdue->launcher, overdue->run, reason);
  long count = collect_run(overdue, 0);
  if (grace > 0) (void)os_request_end(members, count);
  tree_release(count);
}

static void enforce(struct overdue *overdue, const char *reason, uint64_t now) {
  const struct launcher *launcher = overdue->launcher;
  if (!launcher->have_cgroup || !os_boundary_find(&overdue->boundary, launcher->runs_cgroup, overdue->run->id)) {
    if (launcher->have_cgroup && errno != ENOENT) return; /* the next check tries again */
    overdue->boundary.cgroup = -1;
  }
  if (overdue->end->kill_at == 0) ask_to_end(overdue, reason, now);
  else if (now >= overdue->end->kill_at) kill_run(overdue);
  os_boundary_close(&overdue->boundary);
}

static void end_overdue_runs(const struct launcher *launcher, struct anchor *anchor, const struct member *process, uint64_t now, uint64_t slack) {
  for (int i = 0; i < RUNS_MAX; i++) {
    struct overdue overdue = {.launcher = launcher, .anchor = anchor, .process = *process, .at = i, .run = &anchor->heartbeat->runs[i], .end = &anchor->ends[i]};
    if (overdue.run->id[0] == 0 || overdue.end->done) continue;
    const char *reason = overdue_reason(overdue.run, overdue.end, now, slack);
    if (reason != NULL) enforce(&overdue, reason, now);
  }
}

static void continue_anchor(const struct launcher *launcher, struct anchor *anchor, const struct member *process, uint64_t now, uint64_t silent_ms) {
  bool first = anchor->continued_at == 0, sent = os_signal(process, OS_CONT) == 0;
  anchor->continued_at = now;
  for (int i = 0; first && i < RUNS_MAX; i++)
    if (anchor->heartbeat->runs[i].id[0] != 0) save_silent_file(launcher, &anchor->heartbeat->runs[i], silent_ms, sent);
}

static void watch_anchor(struct launcher *launcher, struct anchor *anchor, uint64_t now, uint64_t slack) {
  struct member process;
  uint64_t silent_ms = now > anchor->heartbeat->beat ? now - anchor->heartbeat->beat : 0;
  if (runs_served(anchor) == 0) slack = 0; /* no supervisor knows this anchor */
  if (silent_ms < SILENT_MS + slack) {
    anchor->continued_at = 0;
    memset(anchor->ends, 0, sizeof anchor->ends); /* it runs, and may serve other runs in the same slots */
    return;
  }
  if (!os_read_process(anchor->pid, &process)) return;
  if (tree_dead(&process)) anchor_lose(launcher, anchor, ANCHOR_LOST_ZOMBIE, 0, OS_KILL); /* its tracer has not reaped it */
  else if (anchor->continued_at == 0 || now - anchor->continued_at >= CONTINUE_AGAIN_MS) continue_anchor(launcher, anchor, &process, now, silent_ms);
  else if (now - anchor->continued_at >= CONTINUE_MS) end_overdue_runs(launcher, anchor, &process, now, slack);
  os_release(&process);
}

void anchors_watch(struct launcher *launcher, uint64_t now, bool held) {
  if (now < launcher->watch_at) return;
  launcher->watch_at = now + WATCH_MS;
  launcher->child_ended = true; /* a child that was missed is found within this time */
  for (size_t i = 0; i < launcher->anchor_count; i++) {
    struct anchor *anchor = &launcher->anchors[i];
    if (anchor->state == ANCHOR_ALIVE && anchor->heartbeat != NULL) watch_anchor(launcher, anchor, now, held ? HELD_SLACK_MS : 0);
  }
}
