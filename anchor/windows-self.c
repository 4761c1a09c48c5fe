/* Windows: this process, its memory and its clocks. */
#include "windows.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>

#include "modes.h"

const char *const step_names[] = {"none", "directory", "boundary", "pty", "stdio", "fork", "session", "cwd", "exec", "spec", "limit"};

static HANDLE parent; /* keeps its pid from being used again */
static os_pid parent_pid;

const char *const os_init_problem = "this process cannot read the time of its own start";

bool os_init(void) {
  struct member self;
  (void)_setmode(0, _O_BINARY);
  (void)_setmode(1, _O_BINARY);
  (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); /* a service has nobody who would close a window */
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

/* The processes of a run are in its job, whoever their parents are. */
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
