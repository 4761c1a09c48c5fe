/* macOS: finds the processes of lineages. The ids of members are kept: the id of a member that has ended is dropped when a
 * complete list of processes no longer has it, because its children are members then.
 *
 * A process is missed if its parent was forked and ended between two lists. Of such orphans those are added that have a mark
 * of the run: the marker in the environment, or the descriptor that the command inherited. A mark alone would not do. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "darwin-lineage.h"
#include "tree.h"

#define SCAN_ROUNDS 16
#define RECORDS_SPARE 4096 /* records of a file are dropped when there are so many more than members */
#define ORPHANS 1024

static int open_lineages(void) {
  int count = 0;
  for EACH(lineage) count++;
  return count;
}

/* NULL if there are several: a service that was adopted out of a run has the marks of that run. */
static struct lineage *only_lineage(void) {
  for EACH(lineage)
    return open_lineages() == 1 ? lineage : NULL;
  return NULL;
}

static bool is_listed(const struct listed *list, long count, uint64_t unique) {
  long low = 0, high = count;
  while (low < high) {
    long middle = low + (high - low) / 2;
    if (list[middle].unique < unique) low = middle + 1;
    else high = middle;
  }
  return low < count && list[low].unique == unique;
}

/* The kernel may tell another path of the same file: /private/var for /var. */
static bool is_record(const char *target, void *of) {
  const struct lineage *lineage = of;
  size_t length = strlen(target), ours = strlen(lineage->path);
  return ours > 0 && length >= ours && strcmp(target + length - ours, lineage->path) == 0;
}

static bool is_marked(struct lineage *lineage, pid_t pid) {
  char value[PATH_SIZE];
  const char *run_id = strrchr(lineage->path, '/');
  if (run_id == NULL) return false;
  return (os_environ(pid, "HOLDFAST_RUN_ID", value, sizeof value) && strcmp(value, run_id + 1) == 0) || os_each_descriptor(pid, is_record, lineage);
}

/* True for a process that was started after the run, whose parent has ended unseen, and that has a mark of the run. A
 * process that has ended has no marks any more: it may have left a child that is not on this list (`unsure`). */
static bool is_marked_orphan(struct lineage *lineage, const struct listed *list, long count, const struct listed *process, bool *unsure) {
  static uint64_t checked[ORPHANS]; /* others, which are not looked at again */
  struct member member;
  uint64_t *seen = &checked[process->unique % ORPHANS];
  if (lineage->first == 0 || process->unique <= lineage->first || *seen == process->unique || is_listed(list, count, process->parent)) return false;
  if (is_marked(lineage, process->pid) && (lineage->watched || !record_elsewhere(lineage->path, process->unique))) return true;
  *seen = process->unique;
  *unsure |= !os_read_process(process->pid, &member) || tree_dead(&member);
  return false;
}

static bool add_new(const struct listed *list, long count, bool *unsure) {
  struct lineage *lineage, *only = only_lineage();
  struct unique_info self;
  bool grown = false;
  for (long i = 0; i < count; i++) {
    const struct listed *process = &list[i];
    if (process->unique == 0) continue;
    struct entry *entry = lineage_find(process->unique, &lineage);
    if (entry != NULL) {
      entry->seen = true;
      if (entry->pid == 0) entry->pid = process->pid;
    } else if (lineage_find(process->parent, &lineage) != NULL) {
      grown |= lineage_add(lineage, process->unique, process->parent, process->pid);
    } else if (only != NULL && is_marked_orphan(only, list, count, process, unsure)) {
      grown |= read_unique(only->watched ? getpid() : 1, &self) && lineage_add(only, process->unique, self.unique, process->pid);
    }
  }
  return grown;
}

/* The nearest ancestor that was listed. */
static uint64_t seen_ancestor(uint64_t unique) {
  struct lineage *of;
  for (const struct entry *entry; (entry = lineage_find(unique, &of)) != NULL && !entry->seen;) unique = entry->parent;
  return unique;
}

static void drop_unseen(void) {
  for EACH(lineage) {
    for (long i = 0; i < lineage->count; i++) {
      struct entry *entry = &lineage->entries[i];
      uint64_t parent = entry->seen ? seen_ancestor(entry->parent) : entry->parent;
      if (parent != entry->parent) lineage_record(lineage, entry->unique, parent);
      entry->parent = parent;
    }
  }
  for EACH(lineage) {
    long kept = 0;
    for (long i = 0; i < lineage->count; i++)
      if (lineage->entries[i].seen) lineage->entries[kept++] = lineage->entries[i];
    lineage->count = kept;
  }
}

static void shorten(struct lineage *lineage) {
  struct record *records = malloc((size_t)(lineage->count + 1) * sizeof *records);
  if (records == NULL) return;
  for (long i = 0; i < lineage->count; i++)
    records[i] = (struct record){.unique = lineage->entries[i].unique, .parent = lineage->entries[i].parent};
  record_replace(lineage->file, records, lineage->count);
  lineage->records = lineage->count;
  free(records);
}

static void mark_unread(const struct listed *list, long count) {
  for (long i = 0; i < count && list[i].unique == 0; i++)
    for EACH(lineage)
      for (long j = 0; j < lineage->count; j++)
        if (lineage->entries[j].pid == list[i].pid) lineage->entries[j].seen = true;
}

static bool scan_once(bool *grown) {
  const struct listed *list;
  long count;
  for EACH(lineage)
    for (long i = 0; i < lineage->count; i++) lineage->entries[i].seen = false;
  bool complete = list_processes(&list, &count), unsure = false;
  *grown = add_new(list, count, &unsure);
  mark_unread(list, count);
  if (complete) drop_unseen();
  for EACH(lineage)
    if (lineage->watched && lineage->records > lineage->count + RECORDS_SPARE) shorten(lineage);
  return complete && !unsure;
}

/* Until nothing new is found, and no listed process ended unread: a new member may have forked before it was watched, and
 * a member that was not known yet may have forked and ended. */
bool lineage_scan(void) {
  bool grown = open_lineages() > 0, complete = !grown;
  for (int round = 0; round < SCAN_ROUNDS && (grown || !complete); round++) complete = scan_once(&grown);
  return complete && !grown;
}

bool lineage_scan_and_signal(int signal) {
  lineage_signal = open_lineages() == 1 ? signal : 0;
  bool complete = lineage_scan();
  lineage_signal = 0;
  return complete;
}

/* ---- events ---- */

/* Adds its children, and theirs, without a list of all processes: a parent that soon ends is seen in time. */
void lineage_forked(pid_t pid) {
  static pid_t queue[256];
  const pid_t *children;
  struct lineage *lineage;
  struct unique_info info;
  size_t queued = 0;
  queue[queued++] = pid;
  while (queued > 0) {
    long count = list_children(queue[--queued], &children);
    for (long i = 0; i < count; i++) {
      pid_t child = children[i];
      if (!read_unique(child, &info) || lineage_find(info.unique, &lineage) != NULL || lineage_find(info.parent, &lineage) == NULL) continue;
      if (lineage_add(lineage, info.unique, info.parent, child) && queued < sizeof queue / sizeof *queue) queue[queued++] = child;
    }
  }
}

/* The kernel tells it a moment before the process is a zombie. */
void lineage_ended(pid_t pid) {
  for EACH(lineage)
    for (long i = 0; i < lineage->count; i++)
      if (lineage->entries[i].pid == pid) lineage->entries[i].ended = true;
}
