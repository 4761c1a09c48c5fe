/* Windows: requests to stop this process, and its ended children. */
#include "windows.h"

#include <errno.h>
#include <psapi.h>
#include <stdio.h>
#include <stdlib.h>

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
    bool killed = code == KILLED_CODE && was_killed(children[i].pid);
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
