/* A tree of processes that try to leave their run on Windows. Each writes its pid to DIR\ROLE and waits.
 *
 *   tree leader DIR [MS]   starts the others; with MS it exits with 9 after that time
 *   tree ROLE DIR          one of them
 *   tree caller MAY LINE   runs a command line inside a job that ends with this process; MAY: `leave` lets processes
 *                          leave the job, `stay` does not */
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char self[MAX_PATH];

static void record(const char *role, const char *directory) {
  char path[MAX_PATH], text[16];
  DWORD written;
  snprintf(path, sizeof path, "%s\\%s.new", directory, role);
  HANDLE file = CreateFileA(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
  int length = snprintf(text, sizeof text, "%lu", GetCurrentProcessId());
  if (file == INVALID_HANDLE_VALUE || !WriteFile(file, text, (DWORD)length, &written, NULL)) ExitProcess(99);
  CloseHandle(file);
  char done[MAX_PATH];
  snprintf(done, sizeof done, "%s\\%s", directory, role);
  if (!MoveFileExA(path, done, MOVEFILE_REPLACE_EXISTING)) ExitProcess(98);
}

static BOOL start(const char *line, DWORD flags) {
  char command[1024];
  STARTUPINFOA start = {.cb = sizeof start};
  PROCESS_INFORMATION process;
  snprintf(command, sizeof command, "%s", line);
  if (!CreateProcessA(NULL, command, NULL, NULL, FALSE, flags, NULL, NULL, &start, &process)) return FALSE;
  CloseHandle(process.hThread);
  CloseHandle(process.hProcess);
  return TRUE;
}

static void start_role(const char *role, const char *directory, DWORD flags) {
  char line[1024];
  snprintf(line, sizeof line, "\"%s\" %s \"%s\"", self, role, directory);
  /* Breaking away is refused: the process is started inside then, so that each role is always there. */
  if (!start(line, flags) && !start(line, flags & ~(DWORD)CREATE_BREAKAWAY_FROM_JOB)) ExitProcess(97);
}

/* The job's only handle is ours. */
static int be_caller(BOOL may_leave, const char *line) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
  char command[4096];
  STARTUPINFOA start = {.cb = sizeof start};
  PROCESS_INFORMATION process;
  HANDLE job = CreateJobObjectA(NULL, NULL);
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | (may_leave ? JOB_OBJECT_LIMIT_BREAKAWAY_OK : 0);
  if (job == NULL || !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) return 95;
  snprintf(command, sizeof command, "%s", line);
  if (!CreateProcessA(NULL, command, NULL, NULL, FALSE, CREATE_SUSPENDED, NULL, NULL, &start, &process)) return 94;
  if (!AssignProcessToJobObject(job, process.hProcess)) return 93;
  ResumeThread(process.hThread);
  WaitForSingleObject(process.hProcess, INFINITE);
  Sleep(INFINITE);
  return 0;
}

static BOOL WINAPI ignore(DWORD event) {
  (void)event;
  return TRUE;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *role = argv[1], *directory = argv[2];
  GetModuleFileNameA(NULL, self, sizeof self);
  if (strcmp(role, "caller") == 0) return argc > 3 ? be_caller(strcmp(directory, "leave") == 0, argv[3]) : 2;
  if (strcmp(role, "middle") == 0) { /* its child has a dead parent */
    start_role("grandchild", directory, 0);
    return 0;
  }
  if (strcmp(role, "ignoring") == 0) SetConsoleCtrlHandler(ignore, TRUE);
  if (strcmp(role, "consoleless") == 0) FreeConsole();
  if (strcmp(role, "leader") == 0) {
    char line[1024];
    SetConsoleCtrlHandler(ignore, TRUE);
    start_role("detached", directory, DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP | CREATE_BREAKAWAY_FROM_JOB);
    start_role("breakaway", directory, CREATE_BREAKAWAY_FROM_JOB | CREATE_NO_WINDOW);
    start_role("middle", directory, 0);
    start_role("consoleless", directory, CREATE_NEW_PROCESS_GROUP);
    start_role("ignoring", directory, 0);
    snprintf(line, sizeof line, "cmd.exe /d /s /c \"start /b \"\" \"%s\" background \"%s\"\"", self, directory);
    if (!start(line, 0)) return 96;
  }
  record(role, directory);
  Sleep(argc > 3 ? (DWORD)atoi(argv[3]) : INFINITE);
  return 9;
}
