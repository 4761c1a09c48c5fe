/* A tree of processes that try to leave their run on Windows. Each writes its pid to DIR\ROLE and waits.
 *
 *   tree leader DIR [MS]   starts the others; with MS it exits with 9 after that time
 *   tree ROLE DIR          one of them
 *   tree caller MAY LINE   runs a command line inside a job that ends with this process; MAY: `leave` lets processes
 *                          leave the job, `stay` does not
 *   tree interrupt FILE LINE  runs a command line on this console, presses Ctrl-C when the file exists, and exits as it does
 *   tree interruptible     exits with 1 if Ctrl-C would end this process, with 2 if it is ignored from the start
 *   tree suspend|resume PID
 *   tree deny|allow JOB    who may open the job of this name: nobody, everybody
 *   tree private NAME      0: only this user may open the pipe, or job, of this name; 1: others may, too */
#include <windows.h>

#include <aclapi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

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

/* The command line gets none of our pipes: a gateway that it starts would keep them open. */
static int be_user(const char *file, const char *line) {
  static const DWORD numbers[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  HANDLE null = CreateFileA("NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
  STARTUPINFOA start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES, .hStdInput = null, .hStdOutput = null, .hStdError = null};
  char command[4096];
  PROCESS_INFORMATION process;
  DWORD code;
  for (int i = 0; i < 3; i++) SetHandleInformation(GetStdHandle(numbers[i]), HANDLE_FLAG_INHERIT, 0);
  SetConsoleCtrlHandler(ignore, TRUE);
  snprintf(command, sizeof command, "%s", line);
  if (!CreateProcessA(NULL, command, NULL, NULL, TRUE, 0, NULL, NULL, &start, &process)) return 84;
  while (GetFileAttributesA(file) == INVALID_FILE_ATTRIBUTES)
    if (WaitForSingleObject(process.hProcess, 20) == WAIT_OBJECT_0) return 83;
  if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0)) return 82;
  WaitForSingleObject(process.hProcess, INFINITE);
  return GetExitCodeProcess(process.hProcess, &code) ? (int)code : 81;
}

/* What SetConsoleCtrlHandler(NULL, …) sets, and processes inherit: a bit of a field that the headers do not have. */
static int is_interruptible(void) {
  PROCESS_BASIC_INFORMATION basic;
  if (NtQueryInformationProcess(GetCurrentProcess(), ProcessBasicInformation, &basic, sizeof basic, NULL) != 0) return 80;
  return (*(ULONG *)((char *)basic.PebBaseAddress->ProcessParameters + 0x18) & 1) == 0 ? 1 : 2;
}

LONG NTAPI NtSuspendProcess(HANDLE process);
LONG NTAPI NtResumeProcess(HANDLE process);

static int set_suspended(const char *pid, BOOL suspended) {
  HANDLE process = OpenProcess(PROCESS_SUSPEND_RESUME, FALSE, (DWORD)atoi(pid));
  return process != NULL && (suspended ? NtSuspendProcess(process) : NtResumeProcess(process)) == 0 ? 0 : 92;
}

/* The owner of an object may always change that. */
static int set_access(const char *name, BOOL denied) {
  ACL nobody;
  SECURITY_DESCRIPTOR access;
  HANDLE job = OpenJobObjectA(WRITE_DAC, FALSE, name);
  if (job == NULL || !InitializeAcl(&nobody, sizeof nobody, ACL_REVISION)) return 91;
  if (!InitializeSecurityDescriptor(&access, SECURITY_DESCRIPTOR_REVISION)) return 90;
  if (!SetSecurityDescriptorDacl(&access, TRUE, denied ? &nobody : NULL, FALSE)) return 89;
  return SetKernelObjectSecurity(job, DACL_SECURITY_INFORMATION, &access) ? 0 : 88;
}

static int is_private(const char *name) {
  const BOOL pipe = strncmp(name, "\\\\.\\pipe\\", 9) == 0;
  HANDLE token, object = pipe ? CreateFileA(name, READ_CONTROL, 0, NULL, OPEN_EXISTING, 0, NULL) : OpenJobObjectA(READ_CONTROL, FALSE, name);
  _Alignas(TOKEN_USER) char user[256];
  PSECURITY_DESCRIPTOR descriptor;
  ACL *list;
  ACCESS_ALLOWED_ACE *entry;
  DWORD size;
  if (object == NULL || object == INVALID_HANDLE_VALUE) return 87;
  if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) || !GetTokenInformation(token, TokenUser, user, sizeof user, &size)) return 86;
  if (GetSecurityInfo(object, SE_KERNEL_OBJECT, DACL_SECURITY_INFORMATION, NULL, NULL, &list, NULL, &descriptor) != ERROR_SUCCESS) return 85;
  if (list == NULL || list->AceCount != 1 || !GetAce(list, 0, (void **)&entry)) return 1;
  return entry->Header.AceType == ACCESS_ALLOWED_ACE_TYPE && EqualSid(&entry->SidStart, ((TOKEN_USER *)user)->User.Sid) ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "interruptible") == 0) return is_interruptible();
  if (argc < 3) return 2;
  const char *role = argv[1], *directory = argv[2];
  GetModuleFileNameA(NULL, self, sizeof self);
  if (strcmp(role, "caller") == 0) return argc > 3 ? be_caller(strcmp(directory, "leave") == 0, argv[3]) : 2;
  if (strcmp(role, "interrupt") == 0) return argc > 3 ? be_user(directory, argv[3]) : 2;
  if (strcmp(role, "suspend") == 0 || strcmp(role, "resume") == 0) return set_suspended(directory, role[0] == 's');
  if (strcmp(role, "deny") == 0 || strcmp(role, "allow") == 0) return set_access(directory, role[0] == 'd');
  if (strcmp(role, "private") == 0) return is_private(directory);
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
