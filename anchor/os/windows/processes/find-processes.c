/* Windows: lists of processes, out of one snapshot of the whole system. A child is what names a living, older process as
 * its parent. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

#define SNAPSHOT_FIRST (512u * 1024)
#define SNAPSHOT_TRIES 8
#define STATUS_TOO_SMALL ((NTSTATUS)0xC0000004)

/* The layout of SystemProcessInformation, of which the header has only a part. */
struct process_entry {
  ULONG next, threads;
  LARGE_INTEGER reserved[3], created, user, kernel;
  UNICODE_STRING name;
  LONG priority;
  HANDLE pid, parent;
};

static struct listed *list;
static long list_room;

static void *take_snapshot(void) {
  static void *memory;
  static ULONG room = SNAPSHOT_FIRST;
  for (int i = 0; i < SNAPSHOT_TRIES; i++) {
    ULONG need = 0;
    if (memory == NULL && (memory = malloc(room)) == NULL) return NULL;
    NTSTATUS status = NtQuerySystemInformation(SystemProcessInformation, memory, room, &need);
    if (status == 0) return memory;
    if (status != STATUS_TOO_SMALL) break;
    free(memory);
    memory = NULL;
    room = (need > room ? need : room) * 2;
  }
  errno = ENOMEM;
  return NULL;
}

long list_processes(const struct listed **out) {
  long count = 0;
  const char *at = take_snapshot();
  if (at == NULL) return -1;
  for (;;) {
    const struct process_entry *entry = (const struct process_entry *)at;
    if (count == list_room) {
      struct listed *more = realloc(list, (size_t)(list_room * 2 + 256) * sizeof *more);
      if (more == NULL) return -1;
      list = more;
      list_room = list_room * 2 + 256;
    }
    struct listed *listed = &list[count++];
    *listed = (struct listed){.pid = (os_pid)(intptr_t)entry->pid, .ppid = (os_pid)(intptr_t)entry->parent,
                              .created = (uint64_t)entry->created.QuadPart, .threads = (int)entry->threads};
    if (entry->name.Buffer != NULL) (void)to_utf8(entry->name.Buffer, entry->name.Length / 2, listed->command, sizeof listed->command);
    if (entry->next == 0) break;
    at += entry->next;
  }
  *out = list;
  return count;
}

bool os_each_process(void (*visit)(os_pid pid)) {
  const struct listed *all;
  long count = list_processes(&all);
  if (count < 0) return false;
  os_pid *pids = malloc((size_t)count * sizeof *pids); /* the visitor may take another snapshot */
  if (pids == NULL) return false;
  for (long i = 0; i < count; i++) pids[i] = all[i].pid;
  for (long i = 0; i < count; i++)
    if (pids[i] > 4) visit(pids[i]);
  free(pids);
  return true;
}

/* Windows makes the host of a console a child of the process that has created the console. The host belongs to the console: it
 * ends with the last process there, and its end would end them all. One in the job of a run is found there. */
static bool is_console_host(const struct listed *listed) { return _stricmp(listed->command, "conhost.exe") == 0; }

static bool is_child(const struct listed *listed, const struct identity *parent) {
  return listed->ppid == parent->pid && listed->pid != parent->pid && listed->created >= parent->unique && listed->pid > 4 && !is_console_host(listed);
}

/* Appends the children of `parent` that the snapshot shows, each verified through a handle. */
static long add_children(const struct listed *all, long listed, const struct identity *parent, struct member *out, long count, long max,
                         bool (*skip)(os_pid pid, const void *of), const void *of, int signal) {
  for (long i = 0; i < listed && count < max; i++) {
    const struct identity id = identity_of(all[i].pid, all[i].created);
    if (!is_child(&all[i], parent) || (skip != NULL && skip(id.pid, of)) || !os_open(&id, &out[count])) continue;
    out[count].ppid = parent->pid; /* also if it has died meanwhile */
    out[count].threads = all[i].threads;
    if (signal != 0) (void)os_signal(&out[count], signal);
    count++;
  }
  return count;
}

long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal) {
  const struct listed *all;
  long listed = list_processes(&all);
  return listed < 0 ? 0 : add_children(all, listed, &parent->id, out, 0, max, skip, of, signal);
}

long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal) {
  const struct listed *all;
  if (root->id.pid == os_own_pid()) return 0; /* the job has the run */
  long listed = list_processes(&all), count = 0;
  if (listed < 0) return -1;
  count = add_children(all, listed, &root->id, out, 0, max, skip, of, signal);
  for (long i = 0; i < count; i++) count = add_children(all, listed, &out[i].id, out, count, max, skip, of, signal);
  return count;
}

long os_count_children(bool (*skip)(os_pid pid, const void *of), const void *of) {
  const struct listed *all;
  struct member self;
  long listed = list_processes(&all), count = 0;
  if (listed < 0) return -1;
  os_self(&self);
  for (long i = 0; i < listed; i++) count += is_child(&all[i], &self.id) && (skip == NULL || !skip(all[i].pid, of));
  return count;
}

long os_marked(const char *name, const char *value, struct member *out, long max) {
  const struct listed *all;
  long listed = list_processes(&all), count = 0;
  for (long i = 0; i < listed && count < max; i++) {
    const struct identity id = identity_of(all[i].pid, all[i].created);
    if (id.pid <= 4 || !os_environ_load(id.pid)) continue;
    const char *found = os_environ_value(name);
    if (found != NULL && (value == NULL || strcmp(found, value) == 0) && os_open(&id, &out[count])) count++;
  }
  return count;
}
