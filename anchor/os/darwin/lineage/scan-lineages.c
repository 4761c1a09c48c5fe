/* macOS: finds the processes of lineages. The ids of members are kept: the id of a member that has ended is dropped when a
 * complete list of processes no longer has it, because its children are members then.
 *
 * A process is missed if its parent was forked and ended between two lists. Of such orphans those are added that have a mark
 * of the run: the marker in the environment, or the descriptor that the command inherited. A mark alone would not do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/darwin/lineage/lineage.h"
#include "os/kill-tree.h"

#define SCAN_ROUNDS 16
#define RECORDS_SPARE 4096 /* records of a file are dropped when there are so many more than members */
#define ORPHAN_ROUNDS 3 /* what forks or executes at this moment is settled then */

static struct doubt doubt; /* of the last list */

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

/* Adds processes whose parent is in a lineage. */
static bool add_children(const struct listed *list, long count) {
  struct lineage *lineage;
  bool grown = false;
  for (long i = 0; i < count; i++) {
    const struct listed *process = &list[i];
    if (process->unread) continue;
    struct entry *entry = lineage_find(process->unique, &lineage);
    if (entry != NULL) {
      entry->seen = true;
      if (entry->pid == 0) entry->pid = process->pid;
    } else if (!lineage_moved(process->unique) && lineage_find(process->parent, &lineage) != NULL) {
      grown |= lineage_add(lineage, process->unique, process->parent, process->pid);
    }
  }
  return grown;
}

/* No process of a lineage is older. */
static uint64_t first_of_all(void) {
  uint64_t first = 0;
  for EACH(lineage)
    if (lineage->first != 0 && (first == 0 || lineage->first < first)) first = lineage->first;
  return first;
}

/* Adds processes whose parent ended unseen and that have a mark of the run. */
static bool add_marked(void) {
  struct lineage *only = only_lineage();
  struct unique_info self;
  bool grown = false;
  for (long i = 0; only != NULL && i < doubt.count; i++) {
    const struct listed *process = &doubt.list[i];
    if (process->ended || !is_marked(only, process->pid)) continue;
    grown |= read_unique(only->watched ? getpid() : 1, &self) && lineage_add(only, process->unique, self.unique, process->pid);
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
      if (lineage->entries[i].seen || lineage->entries[i].moved) lineage->entries[kept++] = lineage->entries[i];
    lineage->count = kept;
  }
}

/* The oldest id stays the first record: see lineage_open. */
static void shorten(struct lineage *lineage) {
  struct record *records = malloc((size_t)(lineage->count + 1) * sizeof *records);
  long count = 0;
  if (records == NULL) return;
  if (lineage->count == 0 || lineage->entries[0].unique != lineage->first) records[count++] = (struct record){.unique = lineage->first};
  for (long i = 0; i < lineage->count; i++)
    records[count++] = (struct record){.unique = lineage->entries[i].unique, .parent = lineage->entries[i].moved ? 0 : lineage->entries[i].parent};
  record_replace(lineage->file, records, count);
  lineage->records = count;
  free(records);
}

static void mark_unread(const struct listed *list, long count) {
  for (long i = 0; i < count && list[i].unique == 0; i++)
    for EACH(lineage)
      for (long j = 0; j < lineage->count; j++)
        if (lineage->entries[j].pid == list[i].pid) lineage->entries[j].seen = true;
}

/* True if no listed process ended unread that may have been of a lineage. */
static bool scan_once(bool *grown) {
  const struct listed *list;
  long count;
  for EACH(lineage)
    for (long i = 0; i < lineage->count; i++) lineage->entries[i].seen = false;
  bool complete = list_processes(&list, &count);
  *grown = add_children(list, count);
  mark_unread(list, count);
  find_unrelated(list, count, first_of_all(), &doubt);
  complete &= doubt.unread == 0;
  *grown |= add_marked();
  if (complete) drop_unseen();
  for EACH(lineage)
    if (lineage->watched && lineage->records > lineage->count + RECORDS_SPARE) shorten(lineage);
  return complete;
}

/* Until nothing new is found: a new member may have forked before it was watched. */
bool lineage_scan(void) {
  bool grown = open_lineages() > 0, complete = !grown;
  for (int round = 0; round < SCAN_ROUNDS && (grown || !complete); round++) complete = scan_once(&grown);
  return complete && !grown;
}

/* EMPTY if the known members had ended before a list of all processes was made, and every process on that list was read
 * and is unrelated. A member that ends after the list was made may have left a child that is not on the list. */
enum emptiness lineage_emptiness(int file) {
  const struct lineage *lineage = lineage_of(file);
  if (lineage == NULL) return OCCUPIED;
  for (int round = 0; round < SCAN_ROUNDS; round++) {
    bool over = lineage_over(lineage), grown, complete = scan_once(&grown);
    if (over && complete && !grown && doubt.orphans == 0) return EMPTY;
    if (!over && complete && !grown && !lineage_over(lineage)) return OCCUPIED;
    if (over && complete && !grown && round >= ORPHAN_ROUNDS) return UNSEEN;
  }
  return lineage_over(lineage) ? UNSEEN : OCCUPIED;
}

void os_boundary_doubt(char *out, size_t size) {
  struct member member;
  snprintf(out, size, "processes were started and ended faster than they could be examined");
  for (long i = 0; i < doubt.count; i++) {
    if (doubt.list[i].ended || !os_read_process(doubt.list[i].pid, &member)) continue;
    snprintf(out, size, "process %d (%s) was started during the run, by a process that ended before it was seen", (int)member.id.pid, member.command);
    return;
  }
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
