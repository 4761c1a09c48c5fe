/* Windows: the boundary of a run is a job object. A process cannot leave the job, its children start in the job, and Windows
 * ends all its processes when its last handle is closed. The launcher creates the job. Launcher and anchor keep it open, so
 * that the launcher can count and end the processes of an anchor that died. Other processes of this user find the job by its
 * name, and keep it open only for a moment. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "Global\\holdfast-" /* visible from every session of this machine */
#define PIDS_FIRST 1024
#define PIDS_MOST (1u << 22)
#define NAME_LENGTH (strlen(PREFIX) + 32)
#define INODE_LENGTH 12 /* of the digits of the name */

static HANDLE messages; /* completion port of all jobs */
static volatile LONG limit_hits; /* bits of enum limit */
static HANDLE own_job; /* of the run that this anchor was started for */
static bool killed;

bool has_killed_job(void) { return killed; }

HANDLE job_of(const struct boundary *boundary) {
  struct slot *slot = boundary->cgroup < 0 ? NULL : slot_of(boundary->cgroup, SLOT_JOB);
  return slot == NULL ? NULL : slot->handle;
}

/* A job has no number: its inode is a part of its name, which is a hash. */
static uint64_t inode_of(const char *path) { return strtoull(path + NAME_LENGTH - INODE_LENGTH, NULL, 16); }

static bool name_job(struct boundary *boundary, const char *runs, const char *run_id) {
  char text[PATH_SIZE], hash[33];
  int length = snprintf(text, sizeof text, "%s/%s", runs == NULL ? "" : runs, run_id);
  if (length < 0 || (size_t)length >= sizeof text || !hash_name(text, (size_t)length, hash)) return false;
  snprintf(boundary->path, sizeof boundary->path, PREFIX "%s", hash);
  boundary->inode = inode_of(boundary->path);
  return true;
}

static bool open_named(struct boundary *boundary, DWORD access) {
  WCHAR name[128];
  if (!to_wide(boundary->path, name, 128)) return false;
  HANDLE job = OpenJobObjectW(access, FALSE, name);
  if (job == NULL) (void)fail_last();
  boundary->cgroup = job == NULL ? -1 : slot_open(SLOT_JOB, job);
  return boundary->cgroup >= 0;
}

HANDLE job_create(const char *runs, const char *run_id) {
  struct boundary boundary;
  WCHAR name[128];
  SECURITY_ATTRIBUTES *own = only_this_user();
  if (own == NULL || !name_job(&boundary, runs, run_id) || !to_wide(boundary.path, name, 128)) return NULL;
  HANDLE job = CreateJobObjectW(own, name);
  bool existed = job != NULL && GetLastError() == ERROR_ALREADY_EXISTS; /* of another launcher, or of another program */
  if (job == NULL) (void)fail_last();
  else if (!existed && job_limits_apply(job)) return job;
  if (existed) errno = EEXIST;
  if (job != NULL) CloseHandle(job);
  return NULL;
}

bool os_is_boundary_path(const char *path) { return strncmp(path, PREFIX, strlen(PREFIX)) == 0; }

const char *os_boundary_kind(const struct boundary *boundary) { return boundary->path[0] != 0 ? "job" : "subreaper"; }

/* Only for the run that this anchor was started for: no process can be moved to another job. */
void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note) {
  static bool opened;
  bool own = !opened && launcher_has_job();
  opened = true;
  *boundary = (struct boundary){.cgroup = -1};
  snprintf(boundary->note, sizeof boundary->note, "%s", note);
  errno = ENOTSUP;
  if (own && name_job(boundary, runs, run_id) && open_named(boundary, JOB_OBJECT_ALL_ACCESS)) own_job = job_of(boundary);
  else boundary->path[0] = 0; /* the spawn fails: without a job nothing may run */
}

bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id) {
  *boundary = (struct boundary){.cgroup = -1};
  return name_job(boundary, runs, run_id) && open_named(boundary, JOB_OBJECT_QUERY | JOB_OBJECT_TERMINATE);
}

bool os_boundary_reopen(struct boundary *boundary, const char *path, uint64_t inode) {
  *boundary = (struct boundary){.cgroup = -1, .inode = inode};
  snprintf(boundary->path, sizeof boundary->path, "%s", path);
  errno = EINVAL;
  if (!os_is_boundary_path(path) || strlen(path) != NAME_LENGTH || inode_of(path) != inode) return false;
  if (open_named(boundary, JOB_OBJECT_QUERY | JOB_OBJECT_TERMINATE)) return true;
  if (errno == ENOENT) boundary->path[0] = 0;
  return false;
}

void os_boundary_close(struct boundary *boundary) {
  if (own_job != NULL && job_of(boundary) == own_job) own_job = NULL;
  if (boundary->cgroup >= 0) os_close(boundary->cgroup);
  boundary->cgroup = -1;
}

void os_boundary_remove(struct boundary *boundary) {
  os_boundary_close(boundary);
  boundary->path[0] = 0;
}

static bool accounting(HANDLE job, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION *out) {
  return job != NULL && QueryInformationJobObject(job, JobObjectBasicAccountingInformation, out, sizeof *out, NULL);
}

static bool is_empty(HANDLE job) {
  JOBOBJECT_BASIC_ACCOUNTING_INFORMATION now;
  return accounting(job, &now) && now.ActiveProcesses == 0;
}

/* Without a path there is no job: nothing was started, or it has ended. */
enum emptiness os_boundary_emptiness(const struct boundary *boundary) {
  HANDLE job = job_of(boundary);
  return boundary->path[0] == 0 || (job != NULL && is_empty(job)) ? EMPTY : OCCUPIED;
}

void os_boundary_doubt(char *out, size_t size) {
  (void)size;
  out[0] = 0;
}

/* A job that cannot be opened may have processes: the launcher keeps it open. */
enum emptiness os_boundary_missing(int error) { return error == ENOENT ? EMPTY : OCCUPIED; }

bool job_is_empty(void) { return own_job != NULL && is_empty(own_job); }

const char *os_boundary_state(const char *path, uint64_t inode) {
  struct boundary boundary;
  if (!os_boundary_reopen(&boundary, path, inode)) return errno == ENOENT ? "gone" : "unknown";
  const char *state = os_boundary_empty(&boundary) ? "empty" : "populated";
  os_boundary_close(&boundary);
  return state;
}

bool os_boundary_kill(const struct boundary *boundary) {
  BOOL inside = TRUE;
  HANDLE job = job_of(boundary);
  if (job == NULL || !IsProcessInJob(GetCurrentProcess(), job, &inside) || inside) return false;
  if (!TerminateJobObject(job, KILLED_CODE)) return false;
  return killed = true;
}

bool os_boundary_holds(const struct boundary *boundary, os_pid pid) {
  BOOL inside = FALSE;
  HANDLE job = job_of(boundary), process = job == NULL ? NULL : process_open(pid, PROCESS_QUERY_INFORMATION);
  if (process == NULL) return false;
  bool known = IsProcessInJob(process, job, &inside);
  CloseHandle(process);
  return known && inside;
}

/* The pids of a job; NULL and errno. Freed with free(). */
static JOBOBJECT_BASIC_PROCESS_ID_LIST *pids_of(HANDLE job) {
  for (DWORD room = PIDS_FIRST; room <= PIDS_MOST; room *= 2) {
    size_t size = sizeof(JOBOBJECT_BASIC_PROCESS_ID_LIST) + room * sizeof(ULONG_PTR);
    JOBOBJECT_BASIC_PROCESS_ID_LIST *list = calloc(1, size);
    if (list == NULL) return NULL;
    bool complete = QueryInformationJobObject(job, JobObjectBasicProcessIdList, list, (DWORD)size, NULL);
    DWORD error = complete ? ERROR_SUCCESS : GetLastError();
    if (complete && list->NumberOfProcessIdsInList >= list->NumberOfAssignedProcesses) return list;
    free(list);
    if (!complete && error != ERROR_MORE_DATA) {
      (void)fail_with(error);
      return NULL;
    }
  }
  errno = ENOMEM;
  return NULL;
}

long os_boundary_members(const struct boundary *boundary, struct member *out, long max, bool (*skip)(os_pid, const void *), const void *of) {
  HANDLE job = job_of(boundary);
  long count = 0;
  if (job == NULL) return 0;
  JOBOBJECT_BASIC_PROCESS_ID_LIST *list = pids_of(job);
  if (list == NULL) return -1;
  for (DWORD i = 0; i < list->NumberOfProcessIdsInList && count < max; i++) {
    BOOL inside = FALSE;
    const os_pid pid = (os_pid)list->ProcessIdList[i];
    if ((skip != NULL && skip(pid, of)) || !os_read_process(pid, &out[count])) continue;
    if (!IsProcessInJob(member_process(&out[count]), job, &inside) || !inside) { /* its pid was reused */
      os_release(&out[count]);
      continue;
    }
    if (job == own_job) out[count].sid = out[count].pgid = leader_pid(); /* as if the leader led a session that no process can leave */
    count++;
  }
  free(list);
  return count;
}

/* ---- messages ---- */

static DWORD WINAPI read_messages(void *unused) {
  DWORD message;
  ULONG_PTR key;
  OVERLAPPED *pid;
  (void)unused;
  while (GetQueuedCompletionStatus(messages, &message, &key, &pid, INFINITE)) {
    if (message == JOB_OBJECT_MSG_JOB_MEMORY_LIMIT) (void)InterlockedOr(&limit_hits, 1 << LIMIT_MEMORY);
    if (message == JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT) (void)InterlockedOr(&limit_hits, 1 << LIMIT_PIDS);
    flag_raise((int)key);
  }
  return 0;
}

int os_boundary_events(const struct boundary *boundary) {
  HANDLE job = job_of(boundary);
  if (job == NULL) return -1;
  if (messages == NULL) {
    messages = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 1);
    HANDLE thread = messages == NULL ? NULL : CreateThread(NULL, 0, read_messages, NULL, 0, NULL);
    if (thread == NULL) return fail_descriptor();
    CloseHandle(thread);
  }
  int fd = slot_open(SLOT_FLAG, NULL);
  JOBOBJECT_ASSOCIATE_COMPLETION_PORT port = {.CompletionKey = (void *)(intptr_t)fd, .CompletionPort = messages};
  if (fd >= 0 && SetInformationJobObject(job, JobObjectAssociateCompletionPortInformation, &port, sizeof port)) {
    flag_raise(fd); /* earlier messages are lost */
    return fd;
  }
  (void)fail_last();
  os_close(fd);
  return -1;
}

void os_boundary_events_read(int events) {
  struct slot *slot = slot_of(events, SLOT_FLAG);
  if (slot != NULL) (void)InterlockedExchange(&slot->flag, 0);
}

const char *os_limit_hit(const struct boundary *boundary) {
  (void)boundary;
  return (limit_hits & 1 << LIMIT_MEMORY) != 0 ? "memory" : (limit_hits & 1 << LIMIT_PIDS) != 0 ? "pids" : NULL;
}

void os_usage(const struct boundary *boundary, struct usage *usage) {
  JOBOBJECT_BASIC_ACCOUNTING_INFORMATION now;
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION extended = {0};
  HANDLE job = job_of(boundary);
  *usage = (struct usage){0};
  if (!accounting(job, &now)) return;
  usage->cpu_ms = (uint64_t)(now.TotalUserTime.QuadPart + now.TotalKernelTime.QuadPart) / 10000;
  usage->cpu_known = usage->cpu_ms > 0; /* Wine counts none */
  usage->memory_known = QueryInformationJobObject(job, JobObjectExtendedLimitInformation, &extended, sizeof extended, NULL) && extended.PeakJobMemoryUsed > 0;
  usage->peak_kb = extended.PeakJobMemoryUsed / 1024;
}

/* ---- what jobs cannot do ---- */

/* A nested job would end with the run's own. */
bool os_boundary_move(const struct boundary *boundary, os_pid pid) {
  (void)boundary;
  (void)pid;
  errno = ENOTSUP;
  return false;
}

bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms) {
  (void)boundary;
  (void)patience_ms;
  errno = ENOTSUP;
  return false;
}

void os_boundary_thaw(const struct boundary *boundary) { (void)boundary; }

/* Jobs exist only as long as their anchors, which a survey lists. */
void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id)) { (void)visit; }

bool os_boundary_path_of(os_pid pid, char *out, size_t size) {
  (void)pid;
  (void)out;
  (void)size;
  return false; /* the system does not tell the name of a process's job */
}

bool os_boundaries_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  snprintf(note, note_size, "%s", detach_note());
  return (size_t)snprintf(runs, size, "%s", place) < size;
}

void os_boundaries_leave(const char *runs) { (void)runs; }

void os_boundary_recorded_path(const char *path, char *out, size_t size) { snprintf(out, size, "%s", path); }
