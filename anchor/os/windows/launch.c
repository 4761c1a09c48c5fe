/* Windows: the launcher leaves its caller (its job, console, standard descriptors and directory), and starts anchors,
 * which inherit a connection and shared memory. */
#include "os/windows/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define DETACHED L" --detached" /* the launcher was started again, and is not a third time */
#define SHARED_OPTION L"--shared"
#define JOB_OPTION L"--job"

/* ---- leaving the caller ---- */

static bool stays; /* in the job of the caller */

static bool started_again(void) {
  const WCHAR *line = GetCommandLineW();
  size_t length = wcslen(line), last = wcslen(DETACHED);
  return length > last && wcscmp(line + length - last, DETACHED) == 0;
}

static bool is_in_job(void) {
  BOOL inside = FALSE;
  return IsProcessInJob(GetCurrentProcess(), NULL, &inside) && inside;
}

/* Standard handles that the new process can inherit. */
static DWORD standard_handles(STARTUPINFOEXW *start, HANDLE list[3]) {
  HANDLE *const places[] = {&start->StartupInfo.hStdInput, &start->StartupInfo.hStdOutput, &start->StartupInfo.hStdError};
  static const DWORD numbers[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
  DWORD count = 0;
  for (size_t i = 0; i < 3; i++) {
    HANDLE handle = GetStdHandle(numbers[i]);
    if (handle == NULL || handle == INVALID_HANDLE_VALUE || !SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT)) continue;
    *places[i] = handle;
    bool listed = false;
    for (DWORD j = 0; j < count; j++) listed |= list[j] == handle;
    if (!listed) list[count++] = handle; /* a handle that is listed twice is refused */
  }
  return count;
}

/* Starts the same program with the same words outside the job. */
static bool start_again(void) {
  STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES}};
  HANDLE list[3];
  WCHAR program[WIDE_SIZE];
  PROCESS_INFORMATION process;
  SIZE_T size = 0;
  DWORD count = standard_handles(&start, list), length = GetModuleFileNameW(NULL, program, WIDE_SIZE);
  size_t room = wcslen(GetCommandLineW()) + wcslen(DETACHED) + 1;
  WCHAR *line = malloc(room * sizeof *line);
  (void)InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  start.lpAttributeList = malloc(size);
  bool ready = line != NULL && start.lpAttributeList != NULL && length > 0 && length < WIDE_SIZE;
  bool listed = ready && InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &size), done = listed;
  if (done && count > 0) done = UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, list, count * sizeof *list, NULL, NULL);
  if (done) swprintf(line, room, L"%ls%ls", GetCommandLineW(), DETACHED);
  const DWORD flags = EXTENDED_STARTUPINFO_PRESENT | CREATE_BREAKAWAY_FROM_JOB | DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
  done = done && CreateProcessW(program, line, NULL, NULL, count > 0, flags, NULL, NULL, &start.StartupInfo, &process);
  if (listed) DeleteProcThreadAttributeList(start.lpAttributeList);
  free(start.lpAttributeList);
  free(line);
  if (!done) return false;
  CloseHandle(process.hThread);
  CloseHandle(process.hProcess);
  return true;
}

/* A job of the caller, for example of a service or a build server, may end all its processes with the caller. */
void os_detach(void) {
  if (!is_in_job()) return;
  if (!started_again() && start_again()) exit(0);
  stays = true;
}

const char *detach_note(void) { return stays ? "the launcher is in a job of its caller that lets no process leave: runs end with that job" : ""; }

void os_release_caller(void) {
  WCHAR directory[MAX_PATH];
  UINT length = GetSystemDirectoryW(directory, MAX_PATH);
  if (length > 0 && length < MAX_PATH) (void)SetCurrentDirectoryW(directory);
  int null = _open("NUL", _O_RDWR | _O_BINARY | _O_NOINHERIT);
  for (int fd = 0; fd < 3 && null >= 0; fd++) (void)_dup2(null, fd);
  if (null > 2) (void)_close(null);
}

/* ---- what an anchor inherits ---- */

/* Memory of os_map_shared that no anchor has been started with yet. */
static struct {
  void *memory;
  HANDLE mapping;
} pending;

void *os_map_shared(size_t size) {
  HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)((uint64_t)size >> 32), (DWORD)size, NULL);
  void *memory = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, size);
  if (memory == NULL && mapping != NULL) CloseHandle(mapping);
  if (memory == NULL) return NULL;
  if (pending.mapping != NULL) CloseHandle(pending.mapping);
  pending.memory = memory;
  pending.mapping = mapping;
  return memory;
}

/* The value of an option of our own command line; 0: none. */
static uint64_t number_option(const WCHAR *name) {
  int count = 0;
  uint64_t value = 0;
  WCHAR **words = CommandLineToArgvW(GetCommandLineW(), &count);
  for (int i = 0; words != NULL && i + 1 < count; i++)
    if (wcscmp(words[i], name) == 0) value = (uint64_t)_wcstoui64(words[i + 1], NULL, 10);
  if (words != NULL) LocalFree(words);
  return value;
}

void *os_anchor_shared(size_t size) {
  HANDLE mapping = (HANDLE)(uintptr_t)number_option(SHARED_OPTION);
  void *memory = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, size);
  if (mapping != NULL) CloseHandle(mapping);
  return memory;
}

bool launcher_has_job(void) { return number_option(JOB_OPTION) != 0; }

int os_take_connection(int inherited) {
  HANDLE pipe = (HANDLE)(intptr_t)inherited;
  DWORD type = GetFileType(pipe);
  if (type != FILE_TYPE_PIPE || !SetHandleInformation(pipe, HANDLE_FLAG_INHERIT, 0)) {
    errno = EBADF;
    return -1;
  }
  return slot_open(SLOT_PIPE, pipe);
}

/* ---- starting an anchor ---- */

static bool own_program(WCHAR *out) {
  DWORD length = GetModuleFileNameW(NULL, out, WIDE_SIZE);
  if (length > 0 && length < WIDE_SIZE) return true;
  return fail_last();
}

/* A console that the command inherits and that has no window: the anchor reaches every process there with Ctrl-Break. The
 * job of our caller would end the anchor with it: it leaves that job if it may. */
static HANDLE create(WCHAR *line, HANDLE *inherited, DWORD count, os_pid *pid) {
  WCHAR program[WIDE_SIZE];
  STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start}};
  PROCESS_INFORMATION process;
  SIZE_T size = 0;
  (void)InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  if (!own_program(program) || (start.lpAttributeList = malloc(size)) == NULL) return NULL;
  bool listed = InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &size);
  const size_t list_size = count * sizeof *inherited;
  bool done = listed && UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherited, list_size, NULL, NULL);
  const DWORD flags = EXTENDED_STARTUPINFO_PRESENT | CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP, leave = flags | CREATE_BREAKAWAY_FROM_JOB;
  STARTUPINFOW *info = &start.StartupInfo;
  bool started = done && CreateProcessW(program, line, NULL, NULL, TRUE, leave, NULL, NULL, info, &process);
  if (done && !started && GetLastError() == ERROR_ACCESS_DENIED)
    started = CreateProcessW(program, line, NULL, NULL, TRUE, flags, NULL, NULL, info, &process);
  if (!started) (void)fail_last();
  if (listed) DeleteProcThreadAttributeList(start.lpAttributeList);
  free(start.lpAttributeList);
  if (!started) return NULL;
  CloseHandle(process.hThread);
  *pid = (os_pid)process.dwProcessId;
  return process.hProcess;
}

static WCHAR *anchor_line(const struct os_anchor_start *start, HANDLE pipe, HANDLE mapping, bool has_job) {
  char connection[24], shared[24], program[] = "holdfast-anchor";
  char *words[18] = {program, "run", (char *)(uintptr_t)start->run_id, "--dir", (char *)(uintptr_t)start->directory, "--fd", connection,
                     "--note", (char *)(uintptr_t)start->note, "--launched"};
  size_t count = 10;
  snprintf(connection, sizeof connection, "%llu", (unsigned long long)(uintptr_t)pipe);
  snprintf(shared, sizeof shared, "%llu", (unsigned long long)(uintptr_t)mapping);
  if (start->cgroups != NULL) words[count++] = "--cgroup", words[count++] = (char *)(uintptr_t)start->cgroups;
  if (mapping != NULL) words[count++] = "--shared", words[count++] = shared;
  if (has_job) words[count++] = "--job", words[count++] = "1";
  return command_line(words, false);
}

/* Without a job, which could not be created, the anchor refuses to spawn. The anchor opens the job by its name: under Wine
 * the host of its console inherits all that the anchor does, and would keep the job open. */
static HANDLE start_anchor(const struct os_anchor_start *start, HANDLE pipe, HANDLE mapping, bool has_job, os_pid *pid) {
  HANDLE inherited[2] = {pipe, mapping}, process = NULL;
  const DWORD count = mapping == NULL ? 1 : 2;
  WCHAR *line = anchor_line(start, pipe, mapping, has_job);
  bool inheritable = line != NULL;
  for (DWORD i = 0; i < count; i++) inheritable = inheritable && SetHandleInformation(inherited[i], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
  if (inheritable) process = create(line, inherited, count, pid);
  for (DWORD i = 0; i < count; i++) (void)SetHandleInformation(inherited[i], HANDLE_FLAG_INHERIT, 0);
  free(line);
  return process;
}

os_pid os_anchor_start(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *start, int connection), void **kept) {
  struct slot *slot = slot_of(start->connection, SLOT_PIPE);
  HANDLE mapping = start->shared != NULL && start->shared == pending.memory ? pending.mapping : NULL;
  os_pid pid = -1;
  (void)body; /* another process cannot run a function of this one */
  *kept = NULL;
  if (slot == NULL) return -1;
  pipe_release(slot);
  HANDLE job = job_create(start->cgroups, start->run_id), process = start_anchor(start, slot->handle, mapping, job != NULL, &pid);
  if (mapping != NULL) CloseHandle(mapping);
  if (mapping != NULL) pending.mapping = NULL, pending.memory = NULL;
  if (process != NULL && child_add(pid, process)) {
    *kept = job;
    return pid;
  }
  if (process != NULL) (void)TerminateProcess(process, 1); /* it could not be watched */
  if (process != NULL) CloseHandle(process);
  os_anchor_release(job);
  return -1;
}

void os_anchor_title(const char *run_id) { (void)run_id; }

void os_anchor_release(void *kept) {
  if (kept != NULL) CloseHandle(kept);
}
