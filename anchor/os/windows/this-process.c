/* Windows: this process: its memory, its clocks, requests to stop it, its ended
 * children, and its user. */
#include "os/windows/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <psapi.h>
#include <sddl.h>
#include <stdio.h>
#include <stdlib.h>

#include "modes/modes.h"

static HANDLE parent; /* keeps its pid from being used again */
static os_pid parent_pid;

const char *const os_init_problem = "this process cannot read the time of its own start";

bool os_init(void) {
  struct member self;
  (void)_setmode(0, _O_BINARY);
  (void)_setmode(1, _O_BINARY);
  (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); /* no user would close the window of a service */
  os_self(&self);
  parent_pid = self.ppid;
  parent = process_open(self.ppid, SYNCHRONIZE);
  return self.id.start != 0 && atexit(pipes_flush) == 0;
}

/* The C runtime passes words in the code page of the system. */
char **os_arguments(int *argc, char **argv) {
  int count = 0;
  WCHAR **words = CommandLineToArgvW(GetCommandLineW(), &count);
  char **list = words == NULL ? NULL : calloc((size_t)count + 1, sizeof *list);
  for (int i = 0; list != NULL && i < count; i++) {
    size_t size = 3 * wcslen(words[i]) + 1;
    if ((list[i] = malloc(size)) == NULL) return argv;
    (void)to_utf8(words[i], -1, list[i], size);
  }
  if (words != NULL) LocalFree(words);
  if (list == NULL) return argv;
  *argc = count;
  return list;
}

os_pid os_own_pid(void) { return (os_pid)GetCurrentProcessId(); }

os_pid os_parent(void) { return parent != NULL && !has_ended(parent) ? parent_pid : 0; }

/* The processes of a run are in its job, whatever their parents are. */
bool os_become_reaper(void) { return true; }

void os_harden_self(void) {}

void os_raise_priority(bool on) { (void)SetPriorityClass(GetCurrentProcess(), on ? HIGH_PRIORITY_CLASS : NORMAL_PRIORITY_CLASS); }

uint64_t os_now_ms(void) {
  ULONGLONG time;
  QueryUnbiasedInterruptTime(&time); /* suspend does not count */
  return time / 10000;
}

uint64_t os_wall_ms(void) {
  FILETIME time;
  GetSystemTimePreciseAsFileTime(&time);
  return (((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) - UNIX_EPOCH) / 10000;
}

void *os_map(size_t size) {
  void *memory = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (memory == NULL) errno = ENOMEM;
  return memory;
}

void os_unmap(void *memory, size_t size) {
  MEMORY_BASIC_INFORMATION info;
  (void)size;
  if (VirtualQuery(memory, &info, sizeof info) == sizeof info && info.Type == MEM_MAPPED) (void)UnmapViewOfFile(memory);
  else (void)VirtualFree(memory, 0, MEM_RELEASE);
}

int init_mode(char **command) {
  (void)command;
  fputs("anchor init: only for containers of Linux\n", stderr);
  return 125;
}

/* ---- requests to stop ---- */

int events_descriptor = -1;
static volatile LONG requested; /* 1 + the control event; 0: none */

/* CTRL_C and CTRL_BREAK come from processes of the run, or from ourselves: the anchor shares its console with them. After
 * the others this process is ended when this returns, or after some seconds. */
static BOOL WINAPI on_control(DWORD event) {
  if (event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT) return TRUE;
  (void)InterlockedExchange(&requested, 1 + (LONG)event);
  flag_raise(events_descriptor);
  Sleep(INFINITE);
  return TRUE;
}

int os_events_open(void) {
  if (!SetConsoleCtrlHandler(on_control, TRUE)) return fail_descriptor();
  return events_descriptor = slot_open(SLOT_FLAG, NULL);
}

bool os_next_stop_request(int events, char *actor, size_t size) {
  struct slot *slot = slot_of(events, SLOT_FLAG);
  if (slot != NULL) (void)InterlockedExchange(&slot->flag, 0);
  LONG event = InterlockedExchange(&requested, 0);
  if (event == 0) return false;
  const char *name = event == 1 + CTRL_CLOSE_EVENT ? "console closed" : event == 1 + CTRL_LOGOFF_EVENT ? "logoff" : "shutdown";
  snprintf(actor, size, "windows:%s", name);
  return true;
}

static VOID CALLBACK on_exit(PVOID context, BOOLEAN timed_out) {
  (void)context;
  (void)timed_out;
  flag_raise(events_descriptor);
  wake_poll();
}

bool watch_child(HANDLE process, HANDLE *wait) { return RegisterWaitForSingleObject(wait, process, on_exit, NULL, INFINITE, WT_EXECUTEONLYONCE) || fail_last(); }

/* ---- children ---- */

struct own_child {
  os_pid pid;
  HANDLE process, wait;
};
static struct own_child *children;
static size_t child_count, child_room;

bool child_add(os_pid pid, HANDLE process) {
  if (child_count == child_room) {
    size_t room = child_room == 0 ? 64 : child_room * 2;
    struct own_child *more = realloc(children, room * sizeof *children);
    if (more == NULL) return false;
    children = more;
    child_room = room;
  }
  struct own_child *child = &children[child_count];
  *child = (struct own_child){.pid = pid, .process = process};
  if (!watch_child(process, &child->wait)) return false;
  child_count++;
  return true;
}

static uint64_t milliseconds(FILETIME time) { return ((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) / 10000; }

int os_next_ended(struct os_ended *out) {
  FILETIME created, ended, kernel = {0}, user = {0};
  PROCESS_MEMORY_COUNTERS memory = {0};
  DWORD code;
  if (child_count == 0) return -1;
  for (size_t i = 0; i < child_count; i++) {
    HANDLE process = children[i].process;
    if (!has_ended(process) || !GetExitCodeProcess(process, &code)) continue;
    (void)GetProcessTimes(process, &created, &ended, &kernel, &user);
    (void)GetProcessMemoryInfo(process, &memory, sizeof memory);
    bool killed = code == KILLED_CODE && has_killed_job();
    *out = (struct os_ended){.pid = children[i].pid, .code = killed ? -1 : (int64_t)code, .signal = killed ? OS_KILL : 0,
                             .cpu_ms = milliseconds(kernel) + milliseconds(user), .peak_kb = memory.PeakWorkingSetSize / 1024};
    return 1;
  }
  return 0;
}

void os_reap(os_pid pid) {
  for (size_t i = 0; i < child_count; i++) {
    if (children[i].pid != pid) continue;
    (void)WaitForSingleObject(children[i].process, INFINITE);
    (void)UnregisterWaitEx(children[i].wait, INVALID_HANDLE_VALUE);
    CloseHandle(children[i].process);
    children[i] = children[--child_count];
    return;
  }
}

/* ---- the user ---- */

#define TOKEN_SIZE 256

static bool token_user(HANDLE process, void *memory) {
  HANDLE token;
  DWORD length;
  if (!OpenProcessToken(process, TOKEN_QUERY, &token)) return fail_last();
  bool done = GetTokenInformation(token, TokenUser, memory, TOKEN_SIZE, &length);
  if (!done) (void)fail_last();
  CloseHandle(token);
  return done;
}

/* The default of an elevated process would let every administrator's process in, and name the group as owner. */
SECURITY_ATTRIBUTES *only_this_user(void) {
  static SECURITY_ATTRIBUTES attributes;
  if (attributes.nLength != 0) return &attributes;
  _Alignas(TOKEN_USER) char user[TOKEN_SIZE];
  WCHAR *sid = NULL, text[256];
  if (!token_user(GetCurrentProcess(), user)) return NULL;
  bool done = ConvertSidToStringSidW(((TOKEN_USER *)user)->User.Sid, &sid) && swprintf(text, 256, L"D:P(A;;GA;;;%ls)", sid) > 0 &&
              ConvertStringSecurityDescriptorToSecurityDescriptorW(text, SDDL_REVISION_1, &attributes.lpSecurityDescriptor, NULL);
  if (!done) (void)fail_last();
  if (sid != NULL) LocalFree(sid);
  if (!done) return NULL;
  attributes.nLength = sizeof attributes;
  return &attributes;
}

int same_user(HANDLE process) {
  _Alignas(TOKEN_USER) char own[TOKEN_SIZE], other[TOKEN_SIZE];
  if (!token_user(GetCurrentProcess(), own) || !token_user(process, other)) return -1;
  return EqualSid(((TOKEN_USER *)own)->User.Sid, ((TOKEN_USER *)other)->User.Sid) ? 1 : 0;
}
