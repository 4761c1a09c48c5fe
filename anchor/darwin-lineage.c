/* macOS: which processes belong to a run. A process belongs to it if the process that forked it does, which the kernel
 * tells of every process, also after it got another parent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "darwin-lineage.h"
#include "tree.h"

struct lineage lineages[LINEAGES];
int lineage_signal;

static struct lineage *lineage_of(int file) {
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

struct entry *lineage_find(uint64_t unique, struct lineage **of) {
  for EACH(lineage) {
    struct entry *entry = find_in(lineage, unique);
    if (entry == NULL) continue;
    *of = lineage;
    return entry;
  }
  return NULL;
}

static struct entry *insert(struct lineage *lineage, uint64_t unique, uint64_t parent, pid_t pid) {
  if (lineage->count == lineage->room) {
    long room = lineage->room == 0 ? 64 : lineage->room * 2;
    struct entry *more = realloc(lineage->entries, (size_t)room * sizeof *more);
    if (more == NULL) return NULL;
    lineage->entries = more;
    lineage->room = room;
  }
  struct entry *entry = &lineage->entries[place_of(lineage, unique)];
  memmove(entry + 1, entry, (size_t)(lineage->entries + lineage->count - entry) * sizeof *entry);
  lineage->count++;
  *entry = (struct entry){.unique = unique, .parent = parent, .pid = pid, .seen = true};
  return entry;
}

static void erase(struct lineage *lineage, struct entry *entry) {
  memmove(entry, entry + 1, (size_t)(lineage->entries + --lineage->count - entry) * sizeof *entry);
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
  struct record *records = record_read(file, &lineage->records);
  for (long i = 0; i < lineage->records; i++) {
    struct entry *entry = find_in(lineage, records[i].unique);
    if (lineage->first == 0) lineage->first = records[i].unique;
    if (entry != NULL && records[i].parent == 0) erase(lineage, entry);
    else if (entry != NULL) entry->parent = records[i].parent;
    else if (records[i].parent != 0) (void)insert(lineage, records[i].unique, records[i].parent, 0);
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
  return find_in(lineage, info.parent) != NULL;
}

bool lineage_move(int file, pid_t pid) {
  struct lineage *to = lineage_of(file), *from;
  struct unique_info info;
  if (to == NULL || !read_unique(pid, &info)) return false;
  struct entry *entry = lineage_find(info.unique, &from);
  uint64_t parent = entry == NULL ? info.parent : entry->parent;
  if (entry != NULL && from == to) return true;
  if (!lineage_add(to, info.unique, parent, pid)) return false;
  if (to->first == 0) to->first = info.unique;
  if (entry == NULL) return true;
  lineage_record(from, info.unique, 0);
  erase(from, entry);
  return true;
}

long lineage_members(int file, struct member *out, long max) {
  struct lineage *lineage = lineage_of(file);
  long count = 0;
  for (long i = 0; lineage != NULL && i < lineage->count && count < max; i++) {
    const struct entry *entry = &lineage->entries[i];
    if (entry->pid == 0 || entry->ended || !os_read_process(entry->pid, &out[count])) continue;
    if (out[count].id.unique == entry->unique && !tree_dead(&out[count])) count++;
  }
  return count;
}

bool lineage_empty(int file) {
  struct lineage *lineage = lineage_of(file);
  for (long i = 0; lineage != NULL && i < lineage->count; i++) {
    const struct entry *entry = &lineage->entries[i];
    struct member member;
    if (entry->pid == 0 || entry->ended) continue;
    bool read = os_read_process(entry->pid, &member);
    if (read ? member.id.unique == entry->unique && !tree_dead(&member) : errno != ESRCH) return false;
  }
  return lineage != NULL;
}

uint64_t lineage_parent(uint64_t unique, uint64_t parent) {
  struct lineage *of;
  const struct entry *entry = lineage_find(unique, &of);
  return entry == NULL ? parent : entry->parent;
}
