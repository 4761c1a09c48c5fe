/* The end of a run as a supervisor reads it: leader.json, exit.json and EXITED. */
#include <string.h>

#include "commands/commands.h"
#include "run/end/end.h"

#define SAVE_RETRY_MS 1000
#define FINAL_FLUSH_MS 1000

static void json_leader(struct run *run, struct json *json) {
  if (!run->leader_done || run->started_at == 0 || (run->leader_code < 0 && run->leader_signal < 0)) {
    json_raw(json, "null");
    return;
  }
  json_raw(json, run->leader_code >= 0 ? "{\"code\":" : "{\"signal\":");
  json_number(json, (uint64_t)(run->leader_code >= 0 ? run->leader_code : run->leader_signal));
  json_raw(json, "}");
}

void save_leader_file(struct run *run) {
  if (run->leader_saved || run->started_at == 0) return;
  run->leader_saved = true;
  char text[64];
  struct json json = {.data = text, .size = sizeof text};
  json_leader(run, &json);
  json_save(run->dir, "leader.json", &json);
}

static const char *final_reason(struct run *run) {
  if (run->phase == ABANDONED) return "lost";
  if (run->stop.set) return run->stop.reason;
  if (run->started_at == 0) return "spawn-error";
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
  json_key_string(json, ",\"source\":{\"cpu\":", counted.cpu_known ? os_boundary_kind(&run->boundary) : "reaped");
  json_key_string(json, ",\"memory\":", counted.memory_known ? os_boundary_kind(&run->boundary) : "reaped");
  json_raw(json, "}}");
}

static void write_exit(struct run *run, struct json *json, uint64_t now) {
  json_key_number(json, "{\"protocol\":", PROTOCOL);
  json_key_string(json, ",\"runId\":", run->id);
  json_raw(json, run->started_at != 0 ? ",\"executed\":true" : ",\"executed\":false");
  json_key_string(json, ",\"reason\":", final_reason(run));
  json_key_string(json, ",\"actor\":", run->phase == ABANDONED ? run->abandon.actor : run->stop.actor);
  json_key_string(json, ",\"requestId\":", run->phase == ABANDONED ? run->abandon.request : run->stop.request);
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
  bool proven = run->phase != ABANDONED && !run->unproven;
  json_key_string(json, ",\"emptiness\":", proven ? "proven" : "unproven");
  json_key_string(json, ",\"emptinessNote\":", proven || run->phase == ABANDONED ? "" : run->doubt);
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

/* An owner that got EXITED may die before it records the end, so the run stays until the exit file is written. If the
 * run directory is gone after the owner got EXITED, the owner has recorded the end. If the whole instance directory is
 * gone, no supervisor will ask. */
void write_end(struct run *run, uint64_t now) {
  static char text[64 * 1024];
  struct json json = {.data = text, .size = sizeof text};
  streams_abandon(run);
  streams_check(run);
  streams_settle(run, now);
  streams_report(run, now);
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
  if (!saved && !path_gone(run->instance_directory) && !(run->end_sent && path_gone(run->directory))) {
    run->save_at = now + SAVE_RETRY_MS;
    if (run->phase == ABANDONED) return;
    run->phase = SAVING;
    save_leader_file(run); /* a small file may still fit */
    return;
  }
  connections_finish(run, FINAL_FLUSH_MS);
  finish_run(run);
}
