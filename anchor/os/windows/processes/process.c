/* Windows: processes. A process is its pid and the time of its creation, read through an open handle, which keeps the pid
 * from being used again. */
#include "os/windows/windows.h"

#include <errno.h>
#include <psapi.h>
#include <stdio.h>
#include <string.h>
#include <winternl.h>

#define LIMITED (PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE)
#define OWN (PROCESS_QUERY_INFORMATION | PROCESS_TERMINATE | PROCESS_SUSPEND_RESUME | SYNCHRONIZE)
#define ANCESTORS_MAX 64
#define SUSPEND_COUNT ((THREADINFOCLASS)35) /* ThreadSuspendCount, since Windows 8.1 */

NTSTATUS NTAPI NtGetNextThread(HANDLE process, HANDLE thread, ACCESS_MASK access, ULONG attributes, ULONG flags, HANDLE *next);
NTSTATUS NTAPI NtSuspendProcess(HANDLE process);
NTSTATUS NTAPI NtResumeProcess(HANDLE process);

static bool lookup_failed;

bool os_lookup_failed(void) {
  bool failed = lookup_failed;
  lookup_failed = false;
  return failed;
}

const char *os_strength(void) { return "unique"; }

static uint64_t from_filetime(FILETIME time) { return (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime; }

HANDLE process_open(os_pid pid, DWORD access) {
  HANDLE process = pid > 0 ? OpenProcess(access, FALSE, (DWORD)pid) : NULL;
  if (process != NULL) return process;
  (void)fail_last();
  if (pid <= 0 || GetLastError() == ERROR_INVALID_PARAMETER) errno = ESRCH;
  lookup_failed |= errno == ENOMEM;
  return NULL;
}

uint64_t creation_time(HANDLE process) {
  FILETIME created, ended, kernel, user;
  return GetProcessTimes(process, &created, &ended, &kernel, &user) ? from_filetime(created) : 0;
}

bool has_ended(HANDLE process) { return WaitForSingleObject(process, 0) == WAIT_OBJECT_0; }

HANDLE member_process(const struct member *member) { return member->handle == -1 ? NULL : (HANDLE)(intptr_t)member->handle; }

/* Microseconds since 1970, because records hold numbers below 2^53. */
static uint64_t start_time(uint64_t created) { return (created - UNIX_EPOCH) / 10; }

struct identity identity_of(os_pid pid, uint64_t created) { return (struct identity){.pid = pid, .start = start_time(created), .unique = created}; }

bool os_same(const struct identity *one, const struct identity *other) {
  if (one->pid != other->pid) return false;
  return one->unique != 0 && other->unique != 0 ? one->unique == other->unique : one->start == other->start && one->start != 0;
}

static void base_name(HANDLE process, char *out) {
  WCHAR path[WIDE_SIZE];
  DWORD length = WIDE_SIZE;
  out[0] = 0;
  if (!QueryFullProcessImageNameW(process, 0, path, &length)) return;
  const WCHAR *name = wcsrchr(path, L'\\');
  (void)to_utf8(name == NULL ? path : name + 1, -1, out, COMMAND_SIZE);
}

/* The parent's number may belong to a younger process meanwhile: a parent is older than its child. */
static os_pid parent_of(HANDLE process, uint64_t created) {
  PROCESS_BASIC_INFORMATION basic;
  if (NtQueryInformationProcess(process, ProcessBasicInformation, &basic, sizeof basic, NULL) != 0) return 0;
  os_pid pid = (os_pid)basic.InheritedFromUniqueProcessId;
  HANDLE parent = process_open(pid, PROCESS_QUERY_LIMITED_INFORMATION);
  if (parent == NULL) return errno == ESRCH ? 0 : pid;
  uint64_t older = creation_time(parent);
  CloseHandle(parent);
  return older != 0 && older <= created ? pid : 0;
}

/* True if all threads of the process are suspended. Usually the first one is not, and the loop ends there. */
static bool is_suspended(HANDLE process) {
  HANDLE thread = NULL, next;
  ULONG count = 0;
  bool all = true, any = false;
  while (all && NtGetNextThread(process, thread, THREAD_QUERY_INFORMATION, 0, 0, &next) == 0) {
    if (thread != NULL) CloseHandle(thread);
    thread = next;
    any = true;
    all = NtQueryInformationThread(thread, SUSPEND_COUNT, &count, sizeof count, NULL) == 0 && count > 0;
  }
  if (thread != NULL) CloseHandle(thread);
  return all && any;
}

bool member_read(HANDLE process, os_pid pid, struct member *out) {
  FILETIME created, ended, kernel, user;
  PROCESS_MEMORY_COUNTERS memory;
  DWORD session = 0;
  if (has_ended(process)) {
    errno = ESRCH;
    return false;
  }
  if (!GetProcessTimes(process, &created, &ended, &kernel, &user)) return fail_last();
  (void)ProcessIdToSessionId((DWORD)pid, &session);
  int same = same_user(process);
  *out = (struct member){
      .id = identity_of(pid, from_filetime(created)),
      .handle = (int)(intptr_t)process, /* handles have 32 significant bits */
      .sid = (os_pid)session,
      .uid = same == 1 ? 0 : same == 0 ? 1 : OS_UID_UNKNOWN,
      .cpu_ms = (from_filetime(kernel) + from_filetime(user)) / 10000,
      .threads = 1,
      .state = is_suspended(process) ? 'T' : 'R',
  };
  out->ppid = parent_of(process, out->id.unique);
  if (GetProcessMemoryInfo(process, &memory, sizeof memory)) out->rss_kb = memory.WorkingSetSize / 1024;
  base_name(process, out->command);
  return true;
}

bool os_is_alive(const struct identity *wanted) {
  (void)wanted; /* os_read_process finds out */
  return false;
}

bool os_read_process(os_pid pid, struct member *out) {
  HANDLE process = process_open(pid, OWN);
  if (process == NULL && errno == EACCES) process = process_open(pid, LIMITED);
  if (process == NULL) return false;
  if (member_read(process, pid, out)) return true;
  int error = errno;
  CloseHandle(process);
  errno = error;
  return false;
}

bool os_identity(os_pid pid, struct identity *out) {
  HANDLE process = process_open(pid, LIMITED);
  if (process == NULL) return false;
  uint64_t created = has_ended(process) ? 0 : creation_time(process);
  CloseHandle(process);
  *out = identity_of(pid, created);
  if (created == 0) errno = ESRCH;
  return created != 0;
}

bool os_open(const struct identity *id, struct member *out) {
  if (!os_read_process(id->pid, out)) return false;
  if (os_same(id, &out->id)) return true;
  os_release(out);
  errno = ESRCH;
  return false;
}

void os_release(struct member *member) {
  if (member->handle != -1) CloseHandle(member_process(member));
  member->handle = -1;
}

bool os_refresh(struct member *member) {
  struct member now;
  HANDLE process = member_process(member);
  if (process == NULL || !member_read(process, member->id.pid, &now)) return false;
  *member = now;
  return true;
}

void os_self(struct member *out) {
  if (!member_read(GetCurrentProcess(), os_own_pid(), out)) *out = (struct member){.id.pid = os_own_pid()};
  out->handle = -1;
}

int os_exit_descriptor(struct member *member) {
  HANDLE process = member_process(member), wait = NULL;
  member->handle = -1;
  if (process == NULL) return -1;
  int fd = slot_open(SLOT_PROCESS, process);
  if (fd < 0) return -1;
  if (watch_child(process, &wait)) {
    slot_of(fd, SLOT_PROCESS)->wait = wait;
    return fd;
  }
  os_close(fd); /* os_poll would not report the end of this process */
  return -1;
}

bool os_wait_exit(const struct member *member, int timeout_ms) {
  HANDLE process = member_process(member);
  return process != NULL && WaitForSingleObject(process, timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms) == WAIT_OBJECT_0;
}

bool os_is_foreign(const struct member *member) { return member->uid == 1; }

long os_ancestors(const struct member *of, struct identity *out, long max) {
  long count = 0;
  for (os_pid pid = of->ppid; count < max && pid > 0;) {
    struct member parent;
    if (!os_read_process(pid, &parent)) break;
    os_release(&parent);
    out[count++] = parent.id;
    pid = parent.ppid;
  }
  return count;
}

bool os_untouchable(os_pid pid) {
  static struct identity ancestors[ANCESTORS_MAX];
  static long count = -1;
  struct member self;
  struct identity now;
  if (pid <= 4 || pid == os_own_pid()) return true; /* 0 and 4 are the system */
  if (count < 0) {
    os_self(&self);
    count = os_ancestors(&self, ancestors, ANCESTORS_MAX);
  }
  for (long i = 0; i < count; i++) /* an ancestor may have ended, and its pid be used again */
    if (ancestors[i].pid == pid) return !os_identity(pid, &now) || os_same(&now, &ancestors[i]);
  return false;
}

/* The handle was opened for this very process, and keeps its pid: no check by number is left. */
int os_signal(const struct member *member, int signal) {
  HANDLE process = member_process(member);
  if (process == NULL || os_untouchable(member->id.pid)) return EPERM;
  if (has_ended(process)) return ESRCH;
  if (creation_time(process) != member->id.unique) return ESRCH;
  switch (signal) {
    case OS_KILL:
      if (TerminateProcess(process, KILLED_CODE)) return 0;
      (void)fail_last();
      return has_ended(process) ? ESRCH : errno;
    case OS_STOP: return NtSuspendProcess(process) == 0 ? 0 : EPERM;
    case OS_CONT: return NtResumeProcess(process) == 0 ? 0 : EPERM;
    default: return ENOTSUP;
  }
}

int os_signal_of(uint64_t number) {
  switch (number) {
    case OS_KILL: case OS_TERM: case OS_STOP: case OS_CONT: return (int)number;
    default: return 0;
  }
}
