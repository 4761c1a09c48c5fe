/* macOS: unrelated processes, which certainly belong to no lineage here. A process that is neither unrelated nor in a
 * lineage is in doubt: its parent ended before it was listed.
 *
 * A process is unrelated if it is older than the lineages, if its parent is or was unrelated, or if an unrelated process is
 * in its session: a process enters a session only by fork, and each command begins its own session before exec. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/darwin/lineage/lineage.h"
#include "os/kill-tree.h"

#define PIDS_KEPT_MS 1000 /* a pid is not used again so soon: all others are used first */

struct table {
  struct listed *entries; /* ascending by unique id */
  long count, room;
};

static struct table unrelated, next; /* of the last list, of this list */
static uint64_t unrelated_at;        /* time of the last list */
static struct table doubted, doubted_before;
static struct table elsewhere; /* of another run of this instance, which may share a session with a lineage: it was adopted out of it */

void forget_unrelated(void) { unrelated.count = doubted_before.count = 0; }

static bool has(const struct table *table, uint64_t unique) {
  return table->count > 0 && find_listed(table->entries, table->count, unique) != NULL;
}

static bool insert(struct table *table, const struct listed *process) {
  if (table->count == table->room) {
    long room = table->room == 0 ? 512 : table->room * 2;
    struct listed *more = realloc(table->entries, (size_t)room * sizeof *more);
    if (more == NULL) return false;
    table->entries = more;
    table->room = room;
  }
  long at = table->count++;
  for (; at > 0 && table->entries[at - 1].unique > process->unique; at--) table->entries[at] = table->entries[at - 1];
  table->entries[at] = *process;
  return true;
}

static void swap(struct table *one, struct table *other) {
  struct table kept = *one;
  *one = *other;
  *other = kept;
}

/* The children of an unrelated process that has ended are unrelated. */
static bool was_unrelated(pid_t pid) {
  if (os_now_ms() - unrelated_at > PIDS_KEPT_MS) return false;
  for (long i = 0; i < unrelated.count; i++)
    if (unrelated.entries[i].pid == pid) return true;
  return false;
}

static bool is_unrelated(const struct listed *process, uint64_t first) {
  return process->unique < first || process->parent < first || has(&unrelated, process->unique) || has(&unrelated, process->parent) ||
         has(&next, process->parent);
}

/* The session of a listed process; -1: unknown, or it has ended. */
static pid_t session_of(const struct listed *process) {
  struct unique_info now;
  pid_t session = getsid(process->pid);
  return session >= 0 && read_unique(process->pid, &now) && now.unique == process->unique ? session : -1;
}

/* The leader of the session first: most often it is alive. */
static bool has_unrelated_process(pid_t session) {
  for (long i = 0; i < next.count; i++)
    if (next.entries[i].pid == session && session_of(&next.entries[i]) == session) return true;
  for (long i = 0; i < next.count; i++)
    if (next.entries[i].pid != session && getsid(next.entries[i].pid) == session && session_of(&next.entries[i]) == session) return true;
  return false;
}

static bool is_of_unrelated_session(const struct listed *process) {
  pid_t session = session_of(process);
  return session >= 0 && has_unrelated_process(session);
}

static bool is_of_other_run(const struct listed *process) {
  struct lineage *of;
  if (lineage_moved(process->unique) || has(&elsewhere, process->parent)) return true;
  if (lineage_moved(process->parent) && lineage_find(process->parent, &of) == NULL) return true;
  for EACH(lineage)
    if (record_elsewhere(lineage->path, process->unique)) return true;
  return false;
}

/* True if the run of another instance has recorded the process, and the anchor of that run is unrelated. Otherwise that run was
 * started inside a run of this instance. */
static bool is_of_unrelated_run(const struct listed *process, uint64_t first) {
  struct record root;
  for EACH(lineage)
    if (record_of_other_instance(lineage->path, process->unique, &root)) return root.parent < first || has(&next, root.parent);
  return false;
}

/* A zombie that was one before this list was made has no child that is not on it. */
static bool ended_before(const struct listed *process) {
  const struct listed *before = doubted_before.count == 0 ? NULL : find_listed(doubted_before.entries, doubted_before.count, process->unique);
  return before != NULL && before->ended;
}

static bool has_ended(const struct listed *process) {
  struct member member;
  return os_read_process(process->pid, &member) && member.id.unique == process->unique && tree_dead(&member);
}

void find_unrelated(const struct listed *list, long count, uint64_t first, struct doubt *out) {
  struct lineage *lineage;
  *out = (struct doubt){0};
  next.count = doubted.count = elsewhere.count = 0;
  for (long i = 0; i < count; i++) {
    const struct listed *process = &list[i];
    if (process->unread) out->unread += !was_unrelated(process->pid);
    else if (first != 0 && lineage_find(process->unique, &lineage) == NULL && !insert(is_unrelated(process, first) ? &next : &doubted, process)) out->unread++;
  }
  long kept = 0;
  for (long i = 0; i < doubted.count; i++) {
    struct listed process = doubted.entries[i];
    if (is_of_other_run(&process)) {
      out->unread += !insert(&elsewhere, &process);
      continue;
    }
    if (has(&next, process.parent) || is_of_unrelated_session(&process) || is_of_unrelated_run(&process, first)) {
      out->unread += !insert(&next, &process);
      continue;
    }
    process.ended = has_ended(&process);
    if (!ended_before(&process)) out->orphans++;
    doubted.entries[kept++] = process;
  }
  doubted.count = kept;
  swap(&unrelated, &next);
  unrelated_at = os_now_ms();
  swap(&doubted_before, &doubted);
  out->list = doubted_before.entries;
  out->count = doubted_before.count;
}
