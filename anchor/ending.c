/* The end of a run: reaping, stopping, sweeping, the exit file.
 *
 * Termination is TERM (then CONT), the grace period, then KILL in sweeps until the tree is empty. The death of the
 * leader does not end it. If a process cannot be killed, the anchor reports it, stays, and tries again. */
#include "run.h"
#include "tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAP_ROUND 4096 /* limited, so that reaping does not starve connections and output */
#define SWEEP_FIRST_MS 10
#define SWEEP_MOST_MS 1000
#define REAP_BACKOFF_MS 100
#define CHECK_EVERY_MS 5000
#define SAVE_RETRY_MS 1000
#define FINAL_FLUSH_MS 1000
#define REFRESH_MS 1000

static uint8_t marks[(4 << 20) / 8]; /* one bit for every possible pid */

static void mark(os_pid pid, bool on) {
  uint8_t bit = (uint8_t)(1u << (pid & 7));
  marks[(pid >> 3) % sizeof marks] = (uint8_t)(on ? marks[(pid >> 3) % sizeof marks] | bit : marks[(pid >> 3) % sizeof marks] & ~bit);
}

static void reap_zombies(void);

static bool marked(os_pid pid) { return (marks[(pid >> 3) % sizeof marks] >> (pid & 7) & 1) != 0; }

/* A hidden process that may be the known one counts as known: unknown is not gone. */
static bool is_known(const struct run *run, os_pid pid) {
  struct member now;
  for (long i = 0; i < run->known_count; i++) {
    if (run->known[i].pid != pid) continue;
    if (!os_open(&run->known[i], &now)) return errno == EACCES;
    os_release(&now);
    return true;
  }
  return false;
}

/* True if no other run has processes below this anchor. */
static bool is_only_run(struct run *run) {
  for (struct run *other = runs; other < runs + RUNS_MAX; other++)
    if (other != run && (other->active || other->abandoned)) return false;
  return true;
}

/* True for a process of a run that was adopted out of this one, or of an abandoned run. */
static bool belongs_to_other_run(os_pid pid, const void *of) {
  const struct run *run = of;
  for (struct run *other = runs; other < runs + RUNS_MAX; other++) {
    if (!(other->active ? other->adopted : other->abandoned) || other == run) continue;
    if (other->boundary.cgroup >= 0 && os_boundary_holds(&other->boundary, pid)) return true;
    if (is_known(other, pid) && (run->boundary.cgroup < 0 || !os_boundary_holds(&run->boundary, pid))) return true;
  }
  return false;
}

static bool is_marked_or_of_other_run(os_pid pid, const void *run) { return marked(pid) || belongs_to_other_run(pid, run); }

/* Collects the members known from the last snapshot and their descendants, because the anchor has processes of other
 * runs below it. */
static long collect_known(struct run *run, long max, int signal) {
  long count = 0;
  for (long i = 0; i < run->known_count && count < max; i++) {
    if (marked(run->known[i].pid)) continue;
    if (!os_open(&run->known[i], &members[count])) {
      if (errno != EACCES) continue;
      /* A hidden process without a verified identity is counted. Without a handle it is never signalled. */
      members[count] = (struct member){.id = run->known[i], .handle = -1, .uid = OS_UID_UNKNOWN, .threads = 1, .state = STATE_HIDDEN};
    }
    if (tree_dead(&members[count]) || belongs_to_other_run(run->known[i].pid, run)) {
      os_release(&members[count]);
      continue;
    }
    if (signal != 0 && members[count].state != 'T') os_signal(&members[count], signal);
    mark(members[count++].id.pid, true);
  }
  for (long i = 0; i < count && count < max; i++) {
    long more = os_children(&members[i], members + count, max - count, is_marked_or_of_other_run, run, signal);
    for (long j = count; j < count + more; j++) mark(members[j].id.pid, true);
    count += more;
  }
  for (long i = 0; i < count; i++) mark(members[i].id.pid, false);
  return count;
}

static void save_members(struct run *run, long count) {
  for (long i = 0; i < count; i++) run->known[i] = members[i].id;
  run->known_count = count;
}

/* Collects all processes in the boundary: descendants of the anchor, and other processes in the cgroup. */
long collect(struct run *run, int signal) {
  struct member me;
  os_self(&me);
  reap_zombies(); /* a fork bomb dies as fast as it forks: its zombies would use up all pids */
  bool others = runs_active() > 1; /* with one run left, every descendant belongs to it, except abandoned processes */
  long max = tree_max();
  long count = run->adopted && others ? collect_known(run, max, signal) : os_descendants(&me, members, max, is_only_run(run) ? NULL : belongs_to_other_run, run, signal);
  if (count < 0) count = 0;
  long known = count, more = os_boundary_members(&run->boundary, members + count, max - count);
  for (long i = 0; i < known; i++) mark(members[i].id.pid, true);
  for (long i = known; i < known + more; i++) {
    if (marked(members[i].id.pid)) os_release(&members[i]);
    else members[count++] = members[i];
  }
  for (long i = known; signal != 0 && i < count; i++) os_signal(&members[i], signal);
  for (long i = 0; i < known; i++) mark(members[i].id.pid, false);
  if (run->adopted && count < max) save_members(run, count); /* a truncated list would lose members */
  if ((uint64_t)count > run->processes) run->processes = (uint64_t)count;
  return count;
}

/* ---- the first stop ---- */

static void save_stop(struct run *run) {
  char text[4096];
  struct json json = {.data = text, .size = sizeof text};
  json_key_string(&json, "{\"reason\":", run->stop.reason);
  json_key_string(&json, ",\"actor\":", run->stop.actor);
  json_key_string(&json, ",\"requestId\":", run->stop.request);
  json_raw(&json, "}\n");
  json_save(run->dir, "stop.json", &json); /* failure is ignored: a full disk must not prevent the stop */
}

void request_stop(struct run *run, const char *reason, const char *actor, const char *request, uint64_t grace) {
  uint64_t now = os_now_ms();
  if (grace < run->policy.grace) run->policy.grace = grace;
  if (run->terminating && now + run->policy.grace < run->kill_at) {
    run->kill_at = run->sweep_at = now + run->policy.grace;
    run->report_at = run->kill_at + run->policy.kill_report;
  }
  if (run->stop.set || run->leader_done) return; /* the first reason wins; an exit of the leader is one */
  run->stop.set = true;
  run->stop_at = now;
  snprintf(run->stop.reason, sizeof run->stop.reason, "%s", reason);
  snprintf(run->stop.actor, sizeof run->stop.actor, "%s", actor);
  snprintf(run->stop.request, sizeof run->stop.request, "%s", request);
  save_stop(run);
  send_to_all(run, F_STOPPING, out_stop, NULL);
}

/* ---- the leader ---- */

static void out_leader(struct run *run, struct out *out, const void *unused) {
  (void)unused;
  if (run->leader_code >= 0) out_number(out, T_CODE, (uint64_t)run->leader_code);
  else out_number(out, T_SIGNAL, (uint64_t)run->leader_signal);
}

static void json_leader(struct run *run, struct json *json) {
  if (!run->leader_done || !run->executed || (run->leader_code < 0 && run->leader_signal < 0)) {
    json_raw(json, "null");
    return;
  }
  json_raw(json, run->leader_code >= 0 ? "{\"code\":" : "{\"signal\":");
  json_number(json, (uint64_t)(run->leader_code >= 0 ? run->leader_code : run->leader_signal));
  json_raw(json, "}");
}

static void record_leader_exit(struct run *run, const struct os_ended *ended) {
  if (run->child.status >= 0) read_status(run); /* its reports come before its exit */
  run->leader_done = true;
  run->leader_code = ended->code;
  run->leader_signal = ended->code < 0 ? ended->signal : -1;
  if (run->executed) send_to_all(run, F_LEADER, out_leader, NULL);
}

static void save_leader_file(struct run *run) {
  if (run->leader_saved || !run->executed) return;
  run->leader_saved = true;
  char text[64];
  struct json json = {.data = text, .size = sizeof text};
  json_leader(run, &json);
  json_save(run->dir, "leader.json", &json);
}

static void account(struct run *run, const struct os_ended *ended) {
  run->reaped++;
  run->cpu_ms += ended->cpu_ms;
  if (ended->peak_kb > run->peak_kb) run->peak_kb = ended->peak_kb;
}

/* Finds the run of a process: the run whose leader or known member it is, else the run that the anchor was started
 * for. */
static struct run *run_of(os_pid pid) {
  struct run *otherwise = NULL;
  for (struct run *each = runs; each < runs + RUNS_MAX; each++) {
    if (!each->active && !each->abandoned) continue;
    if (each->active && each->child.id.pid == pid && !each->leader_done) return each;
    for (long i = 0; i < each->known_count; i++)
      if (each->known[i].pid == pid) return each;
    if (otherwise == NULL && each->active) otherwise = each;
  }
  return otherwise;
}

/* Returns true if no process is left below the anchor; otherwise there may be more zombies. */
static bool reap_some_zombies(void) {
  struct os_ended ended;
  for (struct run *each = runs; each < runs + RUNS_MAX; each++)
    if (each->active && each->leader_zombie) return true; /* it was the last process, and stays a zombie */
  for (int i = 0; i < REAP_ROUND; i++) {
    int found = os_next_ended(&ended);
    if (found <= 0) return found < 0;
    struct run *run = run_of(ended.pid);
    run->more_to_reap = i == REAP_ROUND - 1;
    if (run->active && ended.pid == run->child.id.pid && !run->leader_done) {
      record_leader_exit(run, &ended);
      run->settle_at = os_now_ms() + run->policy.settle;
      if (os_only_child(ended.pid)) {
        /* No other process is left. The leader stays a zombie until the exit file is written, mostly in this loop. */
        run->leader_zombie = true;
        account(run, &ended);
        return true;
      }
      save_leader_file(run);
    }
    account(run, &ended);
    os_reap(ended.pid);
  }
  return false;
}

/* Reaps zombies only; `reap_children` checks which runs are empty. */
static void reap_zombies(void) {
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) run->more_to_reap = false;
  bool nobody = reap_some_zombies();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++)
    if (run->active && nobody) run->empty = os_boundary_empty(&run->boundary);
}

/* With other runs below this anchor, only collecting the members shows whether this run is empty. */
static bool tree_is_empty(struct run *run) {
  (void)os_lookup_failed();
  long count = collect(run, 0), left = os_lookup_failed();
  for (long i = 0; i < count; i++) left += !tree_dead(&members[i]);
  tree_release(count);
  return left == 0 && os_boundary_empty(&run->boundary);
}

/* The leader's parent has reaped it, so its exit status is unknown here. */
static void on_leader_exit_elsewhere(struct run *run) {
  run->leader_gone = false;
  if (run->leader_handle >= 0) os_close(run->leader_handle);
  run->leader_handle = -1;
  if (run->leader_done) return;
  run->leader_done = true;
  run->settle_at = os_now_ms() + run->policy.settle;
}

void reap_children(void) {
  reap_zombies();
  for (struct run *run = runs; run < runs + RUNS_MAX; run++) {
    if (!run->active) continue;
    if (run->leader_gone) on_leader_exit_elsewhere(run);
    if (!is_only_run(run) && !run->empty && (run->leader_done || run->terminating)) run->empty = tree_is_empty(run);
  }
}

/* ---- residue ---- */

static const char *classify(struct run *run, const struct member *member) {
  if (member->state == STATE_HIDDEN) return "hidden";
  if (os_is_foreign(member)) return "foreign-uid";
  if (!os_boundary_holds(&run->boundary, member->id.pid)) return "migrated";
  return member->sid != run->session ? "detached" : "background";
}

/* The kind of a process that survived KILL. */
static const char *why_alive(struct run *run, const struct member *member) {
  const char *kind = classify(run, member);
  return strcmp(kind, "foreign-uid") == 0 || strcmp(kind, "hidden") == 0 ? kind : "unkillable";
}

/* For display only: a hidden process without a unique id is taken for the earlier process with the same pid. */
static bool same_entry(const struct identity *one, const struct identity *other) {
  bool unsure = (one->start == 0 || other->start == 0) && (one->unique == 0 || other->unique == 0);
  return os_same(one, other) || (one->pid == other->pid && unsure);
}

/* Records each process once; a later call may correct its kind. */
static void record_residue(struct run *run, const struct member *member, const char *kind, bool fresh) {
  for (uint64_t i = 0; i < run->residue_count && i < RESIDUE_KEPT; i++)
    if (same_entry(&run->residue[i].id, &member->id)) {
      run->residue[i].kind = kind;
      return;
    }
  if (!fresh && run->residue_count >= RESIDUE_KEPT) return; /* already counted among those not listed */
  if (run->residue_count < RESIDUE_KEPT) {
    struct residue *residue = &run->residue[run->residue_count];
    residue->id = member->id;
    residue->kind = kind;
    memcpy(residue->command, member->command, sizeof residue->command);
  }
  run->residue_count++;
}

/* Records once which processes outlived the leader. */
static void record_leader_residue(struct run *run, long count) {
  if (run->residue_count > 0) return;
  for (long i = 0; i < count; i++) {
    if (tree_dead(&members[i]) || members[i].id.pid == run->child.id.pid) continue;
    const char *kind = classify(run, &members[i]);
    record_residue(run, &members[i], kind, true);
    if (strcmp(kind, "background") != 0 && !run->stop.set) run->escaped = true;
  }
}

/* Counts the processes besides the leader that are ended by TERM or KILL. The start time shows which of them were
 * counted before. A process that starts after TERM in the same clock tick as the newest counted one is missed. */
static void count_cleaned(struct run *run, long count) {
  uint64_t newest = run->cleaned_start;
  for (long i = 0; i < count; i++) {
    const struct identity *id = &members[i].id;
    if (tree_dead(&members[i]) || id->pid == run->child.id.pid || id->start <= run->cleaned_start) continue;
    run->cleaned++;
    if (id->start > newest) newest = id->start;
  }
  run->cleaned_start = newest;
}

static void json_members(struct run *run, struct json *json, long count) {
  json_raw(json, "[");
  bool first = true;
  for (long i = 0; i < count && i < RESIDUE_KEPT; i++) {
    if (tree_dead(&members[i])) continue;
    json_raw(json, first ? "{\"pid\":" : ",{\"pid\":");
    first = false;
    json_number(json, (uint64_t)members[i].id.pid);
    json_key_number(json, ",\"startTime\":", members[i].id.start);
    json_key_string(json, ",\"kind\":", why_alive(run, &members[i]));
    json_key_string(json, ",\"command\":", members[i].command);
    json_raw(json, "}");
  }
  json_raw(json, "]");
}

static void out_json(struct run *run, struct out *out, const void *text) {
  (void)run;
  out_text(out, T_JSON, text);
}

/* True if the run has a live process that is on no list: a child that has not exited, or a member of the cgroup. */
static bool unlisted_left(struct run *run) {
  struct os_ended ended;
  if (run->boundary.cgroup >= 0 && !os_boundary_empty(&run->boundary)) return true;
  return is_only_run(run) && os_next_ended(&ended) == 0;
}

/* Adds an unlisted process to `members`, with pid 0. */
static long count_unlisted(struct run *run, long count) {
  long alive = 0;
  for (long i = 0; i < count; i++) alive += !tree_dead(&members[i]);
  if (alive > 0 || count >= tree_max() || !unlisted_left(run)) return count;
  members[count] = (struct member){.handle = -1, .uid = OS_UID_UNKNOWN, .threads = 1, .state = STATE_HIDDEN};
  return count + 1;
}

static void report_survivors(struct run *run, long count) {
  static char text[16 * 1024];
  struct json json = {.data = text, .size = sizeof text};
  count = count_unlisted(run, count);
  for (long i = 0; i < count; i++)
    if (!tree_dead(&members[i])) record_residue(run, &members[i], why_alive(run, &members[i]), false);
  json_members(run, &json, count);
  if (!json.overflow) send_to_all(run, F_SURVIVORS, out_json, text);
  run->reported = true;
}

/* ---- termination ---- */

static void begin_termination(struct run *run, uint64_t now) {
  run->terminating = true;
  run->phase = EXITING;
  os_raise_priority(true);
  run->kill_at = now + run->policy.grace;
  run->sweep_at = run->kill_at;
  run->report_at = run->kill_at + run->policy.kill_report;
  long count = collect(run, 0);
  if (run->leader_done && !run->stop.set) record_leader_residue(run, count);
  count_cleaned(run, count);
  if (run->policy.grace > 0 && os_request_end(members, count) > 0) run->kill_mode = "pid";
  tree_release(count);
}

static long collect_again(void *run, int signal) { return collect(run, signal); }

static void sweep(struct run *run, uint64_t now) {
  if (!run->swept_once || (run->leader_done && run->residue_count == 0)) {
    long left = collect(run, 0);
    if (run->leader_done) record_leader_residue(run, left);
    count_cleaned(run, left);
    tree_release(left);
  }
  bool whole = os_boundary_kill(&run->boundary);
  if (whole) run->kill_mode = "cgroup";
  if (!whole || run->swept_once) { /* one by one without a cgroup, and for processes that left it */
    long count = tree_kill(collect_again, run);
    if (count > 0 && strcmp(run->kill_mode, "none") == 0) run->kill_mode = "pid";
    if (now >= run->report_at) report_survivors(run, count);
    tree_release(count);
  }
  if (now >= run->report_at) run->report_at = now + run->policy.kill_report;
  if (run->reaped != run->reaped_before) run->sweeps = 0; /* processes still die or appear: sweep again soon */
  run->reaped_before = run->reaped;
  uint64_t wait = (uint64_t)SWEEP_FIRST_MS << (run->sweeps < 7 ? run->sweeps : 7);
  run->sweep_at = now + (wait < SWEEP_MOST_MS ? wait : SWEEP_MOST_MS);
  run->sweeps++;
  run->swept_once = true;
}

/* ---- the end ---- */

static const char *final_reason(struct run *run) {
  if (run->abandon.done) return "lost";
  if (run->stop.set) return run->stop.reason;
  if (!run->executed) return "spawn-error";
  if (run->escaped && !run->policy.sweep_escapes) return "ownership-escape";
  return run->leader_signal >= 0 ? "signal" : "exit";
}

static void json_stream(struct json *json, const char *name, const struct spool *spool) {
  json_raw(json, ",\"");
  json_raw(json, name);
  json_key_number(json, "\":{\"start\":", spool->start);
  json_key_number(json, ",\"end\":", spool->end);
  json_key_number(json, ",\"dropped\":", spool->dropped);
  json_key_number(json, ",\"lost\":", spool->lost);
  json_raw(json, "}");
}

/* The cgroup counts all processes. Reaped processes count themselves and their own reaped children, and their peak
 * is that of one process. */
static void json_usage(struct run *run, struct json *json) {
  struct usage counted;
  os_usage(&run->boundary, &counted);
  json_key_number(json, ",\"usage\":{\"cpuMs\":", counted.cpu_known ? counted.cpu_ms : run->cpu_ms);
  json_key_number(json, ",\"peakKb\":", counted.memory_known ? counted.peak_kb : run->peak_kb);
  json_raw(json, ",\"peakTasks\":");
  if (counted.tasks_known) json_number(json, counted.peak_tasks);
  else json_raw(json, "null");
  json_raw(json, counted.cpu_known ? ",\"source\":{\"cpu\":\"cgroup\"" : ",\"source\":{\"cpu\":\"reaped\"");
  json_raw(json, counted.memory_known ? ",\"memory\":\"cgroup\"}}" : ",\"memory\":\"reaped\"}}");
}

static void write_exit(struct run *run, struct json *json, uint64_t now) {
  json_key_number(json, "{\"protocol\":", PROTOCOL);
  json_key_string(json, ",\"runId\":", run->id);
  json_raw(json, run->executed ? ",\"executed\":true" : ",\"executed\":false");
  json_key_string(json, ",\"reason\":", final_reason(run));
  json_key_string(json, ",\"actor\":", run->abandon.done ? run->abandon.actor : run->stop.actor);
  json_key_string(json, ",\"requestId\":", run->abandon.done ? run->abandon.request : run->stop.request);
  json_raw(json, ",\"leader\":");
  json_leader(run, json);
  json_raw(json, ",\"spawnError\":");
  if (run->failure.step != STEP_NONE) {
    json_key_number(json, "{\"errno\":", (uint64_t)run->failure.error);
    json_key_string(json, ",\"step\":", step_names[run->failure.step]);
    json_key_string(json, ",\"message\":", strerror(run->failure.error));
    json_raw(json, "}");
  } else {
    json_raw(json, "null");
  }
  json_raw(json, ",\"residue\":[");
  for (uint64_t i = 0; i < run->residue_count && i < RESIDUE_KEPT; i++) {
    const struct residue *residue = &run->residue[i];
    json_key_number(json, i == 0 ? "{\"pid\":" : ",{\"pid\":", (uint64_t)residue->id.pid);
    json_key_number(json, ",\"startTime\":", residue->id.start);
    json_key_string(json, ",\"kind\":", residue->kind);
    json_key_string(json, ",\"command\":", residue->command);
    json_raw(json, "}");
  }
  json_key_number(json, "],\"residueCount\":", run->residue_count);
  json_key_number(json, ",\"cleaned\":", run->cleaned);
  json_key_string(json, ",\"killMode\":", run->kill_mode);
  json_key_string(json, ",\"tier\":", tier(run));
  json_key_string(json, ",\"tierNote\":", run->boundary.note);
  json_raw(json, run->abandon.done ? ",\"emptiness\":\"unproven\"" : ",\"emptiness\":\"proven\"");
  json_stream(json, "stdout", &run->streams[0].spool);
  json_stream(json, "stderr", &run->streams[1].spool);
  json_key_number(json, ",\"processes\":", run->processes > run->reaped ? run->processes : run->reaped);
  json_usage(run, json);
  const char *hit = os_limit_hit(&run->boundary);
  json_raw(json, ",\"limitHit\":");
  if (hit != NULL) json_string(json, hit);
  else json_raw(json, "null");
  json_key_number(json, ",\"durationMs\":", run->started_at == 0 ? 0 : now - run->started_at);
  json_key_number(json, ",\"endedAt\":", os_wall_ms());
  json_raw(json, "}\n");
}

static bool gone(const char *path) {
  struct os_file_info info;
  return !os_path_info(path, &info) && errno == ENOENT;
}

/* Writes the exit file, or stays and tries again, because an owner that got EXITED may die before it records the end.
 * If the run directory is gone after the owner got EXITED, the owner has recorded the end. If the whole instance
 * directory is gone, no supervisor will ask. */
static void write_end(struct run *run, uint64_t now) {
  static char text[64 * 1024];
  struct json json = {.data = text, .size = sizeof text};
  streams_abandon(run);
  streams_check(run);
  streams_settle(run, now);
  write_exit(run, &json, now);
  bool saved = json_save(run->dir, "exit.json", &json);
  if (!run->end_sent && (saved || run->owner != NULL)) {
    if (run->leader_zombie && saved) os_reap(run->child.id.pid);
    send_to_all(run, F_EXITED, out_json, text);
    run->end_sent = true;
  } else {
    /* The disk is full: send the end to every connection, also to those opened after the owner got it. The next
     * owner gets it again. */
    send_to_all(run, F_EXITED, out_json, text);
  }
  if (!saved && !gone(run->instance_directory) && !(run->end_sent && gone(run->directory))) {
    run->save_at = now + SAVE_RETRY_MS;
    return;
  }
  connections_finish(run, FINAL_FLUSH_MS);
  finish_run(run);
}

bool request_abandon(struct run *run, const char *actor, const char *request) {
  if (!run->reported || run->empty) return false;
  if (run->abandon.asked) return true; /* the first request is being carried out */
  run->abandon.asked = true;
  snprintf(run->abandon.actor, sizeof run->abandon.actor, "%s", actor);
  snprintf(run->abandon.request, sizeof run->abandon.request, "%s", request);
  return true;
}

/* The residue of this end lists only the survivors. If they died meanwhile, the run ends like any other. */
static void abandon_survivors(struct run *run, uint64_t now) {
  if (now < run->save_at) return;
  if (!run->abandon.done) {
    if (!is_only_run(run)) run->empty = tree_is_empty(run);
    long count = collect(run, 0);
    run->abandon.asked = run->abandon.done = !run->empty;
    if (run->abandon.done) run->residue_count = 0;
    if (run->abandon.done) count = count_unlisted(run, count);
    for (long i = 0; run->abandon.done && i < count; i++)
      if (!tree_dead(&members[i])) record_residue(run, &members[i], why_alive(run, &members[i]), true);
    if (run->abandon.done && run->known == NULL) run->known = os_map(KNOWN_SIZE);
    if (run->abandon.done && run->known != NULL) save_members(run, count);
    tree_release(count);
    if (!run->abandon.done) return;
    streams_drain(run, now);
  }
  write_end(run, now);
}

static void release_run(struct run *run) {
  os_boundary_remove(&run->boundary);
  if (run->known != NULL) os_unmap(run->known, KNOWN_SIZE);
  run->known_count = 0;
  run->abandoned = false;
}

/* Releases abandoned runs without live processes, or all of them if the anchor exits. */
static void release_abandoned_runs(bool leaving) {
  for (struct run *each = runs; each < runs + RUNS_MAX; each++) {
    if (!each->abandoned) continue;
    bool left = !leaving && !os_boundary_empty(&each->boundary);
    for (long i = 0; !leaving && i < each->known_count && !left; i++) left = is_known(each, each->known[i].pid);
    if (!left) release_run(each);
  }
}

void finish_run(struct run *run) {
  char path[PATH_SIZE + 8];
  snprintf(path, sizeof path, "%s/sock", run->directory);
  os_path_remove(path);
  run->active = false;
  run->abandoned = run->abandon.done;
  if (!run->abandoned) release_run(run);
  if (runs_active() == 0) {
    release_abandoned_runs(true);
    exit(0);
  }
  for (int i = 0; i < CONNECTIONS; i++) connection_drop(run, &run->connections[i]);
  int ends[] = {run->listener, run->dir, run->boundary_events, run->leader_handle, run->pty ? run->child.out : run->input.fd};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends[i] >= 0) os_close(ends[i]);
  streams_free(run);
}

/* Polls new members while their parents are alive, where only ancestry identifies them. */
static void refresh_members(struct run *run, uint64_t now) {
  struct member leader;
  run->refresh_at = now + REFRESH_MS;
  if (run->leader_handle < 0 && !run->leader_done) { /* no handles on this kernel: the exit of the leader must be polled */
    bool opened = os_open(&run->child.id, &leader), lives = opened ? !tree_dead(&leader) : errno == EACCES;
    run->leader_gone = !lives;
    if (opened) os_release(&leader);
    if (!lives) reap_children();
  }
  if (run->boundary.cgroup < 0 && !is_only_run(run)) tree_release(collect(run, 0));
}

/* Repairs a run directory that was removed or replaced: its content is counted as lost, and the run continues. */
static void repair_directory(struct run *run) {
  char runs[PATH_SIZE + 8];
  struct os_file_info here, there;
  bool same = os_file_info(run->dir, &here) && os_path_info(run->directory, &there) && here.inode == there.inode;
  if (same || gone(run->instance_directory)) return;
  snprintf(runs, sizeof runs, "%s/runs", run->instance_directory);
  (void)os_directory_create(runs);
  (void)os_directory_create(run->directory);
  int dir = os_directory_open(run->directory);
  if (dir < 0) return;
  os_close(run->dir);
  run->dir = dir;
  for (int i = 0; i < 2; i++) spool_restart(&run->streams[i].spool, dir);
  os_file_save(run->dir, "key", run->key, strlen(run->key));
  save_anchor_file(run);
  if (run->stop.set) save_stop(run);
  run->leader_saved = false;
  if (run->leader_done) save_leader_file(run);
}

/* Checks at an interval that the socket and the directory exist. */
static void check_socket_and_directory(struct run *run, uint64_t now) {
  char path[PATH_SIZE + 8];
  run->check_at = now + CHECK_EVERY_MS;
  drop_silent_connections(run, now);
  release_abandoned_runs(false);
  if (run->end_sent) return;
  repair_directory(run);
  streams_check(run);
  snprintf(path, sizeof path, "%s/sock", run->directory);
  if (!os_listener_present(path, run->socket_inode)) listener_open(run);
}

static bool deadline_passed(struct run *run, uint64_t from, uint64_t limit, uint64_t now) {
  uint64_t slack = run->owner != NULL ? run->policy.backstop : 0; /* a live owner acts first */
  return limit > 0 && now >= from + limit + slack;
}

void step_deadlines(struct run *run, uint64_t now) {
  if (run->adopted && now >= run->refresh_at) refresh_members(run, now);
  if (now >= run->check_at) check_socket_and_directory(run, now);
  if (run->abandon.done || (run->abandon.asked && !run->empty)) {
    abandon_survivors(run, now);
    return;
  }
  if (run->stop.set || run->owner == NULL) close_gate(run);
  if ((run->phase == RUNNING || run->gate_used) && !run->stop.set && !run->leader_done) {
    if (deadline_passed(run, run->overall_from, run->policy.overall, now)) request_stop(run, "overall-timeout", "anchor", "", FOREVER);
    else if (run->withheld_since == 0 && deadline_passed(run, run->output_at, run->policy.no_output, now))
      request_stop(run, "no-output-timeout", "anchor", "", FOREVER);
    else if (run->owner == NULL && !run->policy.service && now >= run->owner_lost_at + run->policy.owner_loss)
      request_stop(run, "owner-lost", "anchor", "", FOREVER);
  }
  /* With the gate closed the child exits by itself. A child that hangs before the gate needs no grace period. */
  bool hangs = run->gate_closed_at != 0 && now >= run->gate_closed_at + run->policy.settle;
  if (hangs) run->policy.grace = 0;
  bool due_to_stop = run->stop.set && run->gate_closed_at == 0;
  bool due_to_rest = run->leader_done && now >= run->settle_at;
  if (!run->empty && !run->terminating && (due_to_stop || due_to_rest || hangs)) begin_termination(run, now);
  /* Zombies are reaped before the next count, but they cannot delay it for long. */
  bool due = run->terminating && now >= run->kill_at && now >= run->sweep_at + (run->more_to_reap ? REAP_BACKOFF_MS : 0);
  if (!run->empty && due) sweep(run, now);
  if (!run->empty || !run->leader_done) return;
  if (run->drain_until == 0) {
    run->drain_until = now + run->policy.drain;
    streams_drain(run, now);
  }
  if ((streams_ended(run) || now >= run->drain_until) && now >= run->save_at) write_end(run, now);
  else save_leader_file(run); /* the drain takes time: if the anchor dies meanwhile, the status is known */
}

static void min_deadline(uint64_t *deadline, uint64_t at) {
  if (at < *deadline) *deadline = at;
}

uint64_t next_deadline(struct run *run, uint64_t now) {
  if (run->abandon.done && run->save_at > now) return run->save_at - now;
  if (run->more_to_reap || (run->abandon.asked && !run->empty)) return 0;
  uint64_t at = run->adopted && run->refresh_at < run->check_at ? run->refresh_at : run->check_at, slack = run->owner != NULL ? run->policy.backstop : 0;
  if ((run->phase == RUNNING || run->gate_used) && !run->stop.set && !run->leader_done) {
    if (run->policy.overall > 0) min_deadline(&at, run->overall_from + run->policy.overall + slack);
    if (run->policy.no_output > 0 && run->withheld_since == 0) min_deadline(&at, run->output_at + run->policy.no_output + slack);
    if (run->owner == NULL && !run->policy.service) min_deadline(&at, run->owner_lost_at + run->policy.owner_loss);
  }
  if (run->leader_done && !run->empty && !run->terminating) min_deadline(&at, run->settle_at);
  if (run->gate_closed_at != 0 && !run->empty && !run->terminating) min_deadline(&at, run->gate_closed_at + run->policy.settle);
  if (run->terminating && !run->empty) min_deadline(&at, run->sweep_at > run->kill_at ? run->sweep_at : run->kill_at);
  if (run->empty && run->leader_done) min_deadline(&at, run->save_at > 0 ? run->save_at : run->drain_until);
  if (run->accept_at > now) min_deadline(&at, run->accept_at);
  for (int i = 0; i < 2; i++) {
    bool heard = run->owner == NULL || !backlogged(run->owner);
    if (run->streams[i].dirty && heard) min_deadline(&at, run->streams[i].sent_at + 2);
    if (run->streams[i].held_used > 0) min_deadline(&at, run->streams[i].retry_at);
  }
  return at <= now ? 0 : at - now;
}
