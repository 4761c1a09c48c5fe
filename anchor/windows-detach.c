/* Windows: a launcher leaves its caller: the caller's job, console, standard descriptors and directory. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

#define DETACHED L" --detached" /* the launcher was started again, and is not a third time */

static bool stays; /* in the job of the caller */

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
  if (wcsstr(GetCommandLineW(), DETACHED) == NULL && start_again()) exit(0);
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
