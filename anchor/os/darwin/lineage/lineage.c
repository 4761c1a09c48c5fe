/* macOS: finds the processes of a run. A process belongs to it if the process that forked it does, which the kernel
 * tells of every process, also after it got another parent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/darwin/lineage/lineage.h"
#include "os/kill-tree.h"

struct lineage lineages[LINEAGES];
int lineage_signal;

struct lineage *lineage_of(int file) {
  for EACH(lineage)
    if (lineage->file == file) return lineage;
  return NULL;
}

/* The place of an id, or where it would be. */
static long place_of(const struct lineage *lineage, uint64_t unique) {
  long low = 0, high = lineage->count;
  while (low < high) {
    long middle = low + (high - low) / 2;
    if (lineage->entries[middle].unique < unique) low = middle + 1;
    else high = middle;
  }
  return low;
}

static struct entry *find_in(const struct lineage *lineage, uint64_t unique) {
  long at = place_of(lineage, unique);
  return unique != 0 && at < lineage->count && lineage->entries[at].unique == unique ? &lineage->entries[at] : NULL;
}

static struct entry *member_in(const struct lineage *lineage, uint64_t unique) {
  struct entry *entry = find_in(lineage, unique);
  return entry == NULL || entry->moved ? NULL : entry;
}

bool lineage_moved(uint64_t unique) {
  for EACH(lineage)
    if (find_in(lineage, unique) != NULL) return true;
  return false;
}

struct entry *lineage_find(uint64_t unique, struct lineage **of) {
  for EACH(lineage) {
    struct entry *entry = member_in(lineage, unique);
    if (entry == NULL) continue;
    *of = lineage;
    return entry;
  }
  return NULL;
}

static struct entry *insert(struct lineage *lineage, uint64_t unique, uint64_t parent, pid_t pid) {
  const struct entry fresh = {.unique = unique, .parent = parent, .pid = pid, .seen = true};
  struct entry *entry = find_in(lineage, unique);
  if (entry != NULL) { /* it is moved back */
    *entry = fresh;
    return entry;
  }
  if (lineage->count == lineage->room) {
    long room = lineage->room == 0 ? 64 : lineage->room * 2;
    struct entry *more = realloc(lineage->entries, (size_t)room * sizeof *more);
    if (more == NULL) return NULL;
    lineage->entries = more;
    lineage->room = room;
  }
  entry = &lineage->entries[place_of(lineage, unique)];
  memmove(entry + 1, entry, (size_t)(lineage->entries + lineage->count - entry) * sizeof *entry);
  lineage->count++;
  *entry = fresh;
  return entry;
}

void lineage_record(struct lineage *lineage, uint64_t unique, uint64_t parent) {
  lineage->records += record_append(lineage->file, &(struct record){.unique = unique, .parent = parent});
}

bool lineage_add(struct lineage *lineage, uint64_t unique, uint64_t parent, pid_t pid) {
  const struct member member = {.id = {.pid = pid, .unique = unique}, .handle = -1};
  if (lineage_signal != 0) (void)os_signal(&member, lineage_signal);
  if (insert(lineage, unique, parent, pid) == NULL) return false;
  lineage_record(lineage, unique, parent);
  if (lineage->watched) (void)watch_process(pid);
  return true;
}

/* ---- opening ---- */

bool lineage_open(int file, const char *path, bool watch) {
  struct lineage *lineage = lineages;
  while (lineage < lineages + LINEAGES && lineage->used) lineage++;
  errno = EMFILE;
  if (lineage == lineages + LINEAGES) return false;
  *lineage = (struct lineage){.used = true, .watched = watch, .file = file};
  snprintf(lineage->path, sizeof lineage->path, "%s", path);
  if (watch) return true; /* a new one has no records */
  struct record *records;
  bool read = record_read(file, &records, &lineage->records);
  if (!read) *lineage = (struct lineage){0};
  if (!read) return false;
  forget_unrelated();
  for (long i = 0; i < lineage->records; i++) {
    if (lineage->first == 0) lineage->first = records[i].unique;
    struct entry *entry = insert(lineage, records[i].unique, records[i].parent, 0);
    if (entry != NULL) entry->moved = records[i].parent == 0;
  }
  free(records);
  return true;
}

void lineage_close(int file) {
  struct lineage *lineage = lineage_of(file);
  os_close(file);
  if (lineage == NULL) return;
  free(lineage->entries);
  *lineage = (struct lineage){0};
}

bool lineage_begin(int file, pid_t pid) {
  struct lineage *lineage = lineage_of(file);
  struct unique_info info;
  if (lineage == NULL || !read_unique(pid, &info)) return false;
  lineage->first = info.unique;
  return lineage_add(lineage, info.unique, info.parent, pid);
}

/* ---- members ---- */

bool lineage_holds(int file, pid_t pid) {
  struct lineage *lineage = lineage_of(file), *of;
  struct unique_info info;
  if (lineage == NULL || !read_unique(pid, &info)) return false;
  if (lineage_find(info.unique, &of) != NULL) return of == lineage;
  return !lineage_moved(info.unique) && member_in(lineage, info.parent) != NULL;
}

bool lineage_move(int file, pid_t pid) {
  struct lineage *to = lineage_of(file), *from;
  struct unique_info info;
  if (to == NULL || !read_unique(pid, &info)) return false;
  struct entry *entry = lineage_find(info.unique, &from);
  uint64_t parent = entry == NULL ? info.parent : entry->parent;
  if (entry != NULL && from == to) return true;
  if (!lineage_add(to, info.unique, parent, pid)) return false;
  if (to->first == 0 || info.unique < to->first) to->first = info.unique;
  if (entry == NULL) return true;
  lineage_record(from, info.unique, 0);
  entry->moved = true;
  return true;
}

long lineage_members(int file, struct member *out, long max) {
  struct lineage *lineage = lineage_of(file);
  long count = 0;
  for (long i = 0; lineage != NULL && i < lineage->count && count < max; i++) {
    const struct entry *entry = &lineage->entries[i];
    if (entry->moved || entry->pid == 0 || entry->ended || !os_read_process(entry->pid, &out[count])) continue;
    if (out[count].id.unique == entry->unique && !tree_dead(&out[count])) count++;
  }
  return count;
}

bool lineage_over(const struct lineage *lineage) {
  for (long i = 0; i < lineage->count; i++) {
    const struct entry *entry = &lineage->entries[i];
    struct member member;
    if (entry->moved || entry->ended) continue;
    if (entry->pid == 0) return false;
    bool read = os_read_process(entry->pid, &member);
    if (read ? member.id.unique == entry->unique && !tree_dead(&member) : errno != ESRCH) return false;
  }
  return true;
}

uint64_t lineage_parent(uint64_t unique, uint64_t parent) {
  struct lineage *of;
  const struct entry *entry = lineage_find(unique, &of);
  return entry == NULL ? parent : entry->parent;
}
