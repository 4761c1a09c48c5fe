/* Records the processes that outlived the leader, and those that survive KILL. */
#include <string.h>

#include "commands/commands.h"
#include "run/end/end.h"
#include "os/kill-tree.h"

static const char *classify(const struct run *run, const struct member *member) {
  if (member->state == STATE_HIDDEN) return "hidden";
  if (os_is_foreign(member)) return "foreign-uid";
  if (!os_boundary_holds(&run->boundary, member->id.pid)) return "migrated";
  return member->sid != run->session ? "detached" : "background";
}

const char *why_alive(const struct run *run, const struct member *member) {
  const char *kind = classify(run, member);
  return strcmp(kind, "foreign-uid") == 0 || strcmp(kind, "hidden") == 0 ? kind : "unkillable";
}

/* For display only: a hidden process without a unique id is taken for the earlier process with the same pid. */
static bool same_entry(const struct identity *one, const struct identity *other) {
  bool unsure = (one->start == 0 || other->start == 0) && (one->unique == 0 || other->unique == 0);
  return os_same(one, other) || (one->pid == other->pid && unsure);
}

void record_residue(struct run *run, const struct member *member, const char *kind, bool fresh) {
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

void record_leader_residue(struct run *run, long count) {
  if (run->residue_count > 0) return;
  for (long i = 0; i < count; i++) {
    if (tree_dead(&members[i]) || members[i].id.pid == run->child.id.pid) continue;
    const char *kind = classify(run, &members[i]);
    record_residue(run, &members[i], kind, true);
    if (strcmp(kind, "background") != 0 && !run->stop.set) run->escaped = true;
  }
}

/* The start time shows which of them were counted before. A process that starts after TERM in the same clock tick as the
 * newest counted one is missed. */
void count_cleaned(struct run *run, long count) {
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

void out_json(struct run *run, struct out *out, const void *text) {
  (void)run;
  out_text(out, T_JSON, text);
}

/* True if the run has a live process that is on no list: a child that has not exited, or a member of the cgroup. */
static bool unlisted_left(struct run *run) {
  struct os_ended ended;
  if (run->boundary.cgroup >= 0 && os_boundary_emptiness(&run->boundary) == OCCUPIED) return true;
  return is_only_run(run) && os_next_ended(&ended) == 0;
}

long count_unlisted(struct run *run, long count) {
  long alive = 0;
  for (long i = 0; i < count; i++) alive += !tree_dead(&members[i]);
  if (alive > 0 || count >= tree_max() || !unlisted_left(run)) return count;
  members[count] = (struct member){.handle = -1, .uid = OS_UID_UNKNOWN, .threads = 1, .state = STATE_HIDDEN};
  return count + 1;
}

void report_survivors(struct run *run, long count) {
  static char text[16 * 1024];
  struct json json = {.data = text, .size = sizeof text};
  count = count_unlisted(run, count);
  for (long i = 0; i < count; i++)
    if (!tree_dead(&members[i])) record_residue(run, &members[i], why_alive(run, &members[i]), false);
  json_members(run, &json, count);
  if (!json.overflow) send_to_all(run, F_SURVIVORS, out_json, text);
  run->reported = true;
}
