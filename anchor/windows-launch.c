/* Windows: the launcher leaves its caller, and starts anchors, which inherit a connection and shared memory. */
#include "windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define SHARED_OPTION L"--shared"

/* Memory of os_map_shared that no anchor has been started with yet. */
static struct {
  void *memory;
  HANDLE mapping;
} pending;

void *os_map_shared(size_t size) {
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, &inherited, PAGE_READWRITE, (DWORD)((uint64_t)size >> 32), (DWORD)size, NULL);
  void *memory = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, size);
  if (memory == NULL && mapping != NULL) CloseHandle(mapping);
  if (memory == NULL) return NULL;
  if (pending.mapping != NULL) CloseHandle(pending.mapping);
  pending.memory = memory;
  pending.mapping = mapping;
  return memory;
}

/* The value of an option of our own command line; 0: none. Only handles are passed this way. */
static uint64_t handle_option(const WCHAR *name) {
  int count = 0;
  uint64_t value = 0;
  WCHAR **words = CommandLineToArgvW(GetCommandLineW(), &count);
  for (int i = 0; words != NULL && i + 1 < count; i++)
    if (wcscmp(words[i], name) == 0) value = (uint64_t)_wcstoui64(words[i + 1], NULL, 10);
  if (words != NULL) LocalFree(words);
  return value;
}

void *os_anchor_shared(size_t size) {
  HANDLE mapping = (HANDLE)(uintptr_t)handle_option(SHARED_OPTION);
  void *memory = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, size);
  if (mapping != NULL) CloseHandle(mapping);
  return memory;
}

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

static WCHAR *anchor_line(const struct os_anchor_start *start, HANDLE pipe, HANDLE mapping) {
  char connection[24], shared[24], program[] = "holdfast-anchor";
  char *words[16] = {program, "run", (char *)(uintptr_t)start->run_id, "--dir", (char *)(uintptr_t)start->directory, "--fd", connection,
                     "--note", (char *)(uintptr_t)start->note, "--launched"};
  size_t count = 10;
  snprintf(connection, sizeof connection, "%llu", (unsigned long long)(uintptr_t)pipe);
  snprintf(shared, sizeof shared, "%llu", (unsigned long long)(uintptr_t)mapping);
  if (start->cgroups != NULL) words[count++] = "--cgroup", words[count++] = (char *)(uintptr_t)start->cgroups;
  if (mapping != NULL) words[count++] = "--shared", words[count++] = shared;
  return command_line(words, false);
}

os_pid os_anchor_start(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *start, int connection)) {
  struct slot *slot = slot_of(start->connection, SLOT_PIPE);
  HANDLE mapping = start->shared != NULL && start->shared == pending.memory ? pending.mapping : NULL;
  os_pid pid = -1;
  (void)body; /* another process cannot run a function of this one */
  if (slot == NULL) return -1;
  pipe_release(slot);
  HANDLE inherited[2] = {slot->handle, mapping};
  WCHAR *line = anchor_line(start, slot->handle, mapping);
  HANDLE process = NULL;
  if (line != NULL && SetHandleInformation(slot->handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT)) {
    process = create(line, inherited, mapping == NULL ? 1 : 2, &pid);
    (void)SetHandleInformation(slot->handle, HANDLE_FLAG_INHERIT, 0);
  }
  free(line);
  if (mapping != NULL) CloseHandle(mapping);
  if (mapping != NULL) pending.mapping = NULL, pending.memory = NULL;
  if (process == NULL) return -1;
  if (child_add(pid, process)) return pid;
  (void)TerminateProcess(process, 1); /* it could not be watched */
  CloseHandle(process);
  return -1;
}
