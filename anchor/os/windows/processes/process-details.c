/* Windows: details of another process: its command line and its environment, read from its memory. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

#define ENVIRONMENT_MOST (64u * 1024) /* characters */
#define READABLE (PROCESS_QUERY_INFORMATION | PROCESS_VM_READ)

/* Offsets in the parameters of a 64-bit process, which winternl.h does not have; unchanged since Windows Vista. */
#define PARAMETERS_IN_PEB 0x20
#define COMMAND_IN_PARAMETERS 0x70
#define ENVIRONMENT_IN_PARAMETERS 0x80
#define ENVIRONMENT_SIZE_IN_PARAMETERS 0x3f0

static bool read_memory(HANDLE process, const void *at, void *out, size_t size) {
  SIZE_T done;
  return at != NULL && ReadProcessMemory(process, at, out, size, &done) && done == size;
}

static char *parameters_of(HANDLE process) {
  PROCESS_BASIC_INFORMATION basic;
  char *parameters = NULL;
  if (NtQueryInformationProcess(process, ProcessBasicInformation, &basic, sizeof basic, NULL) != 0) return NULL;
  return read_memory(process, (char *)basic.PebBaseAddress + PARAMETERS_IN_PEB, &parameters, sizeof parameters) ? parameters : NULL;
}

/* Characters of the process's memory as UTF-8; NULL: unreadable. Freed with free(). */
static char *read_text(HANDLE process, const void *at, size_t length, size_t *size) {
  WCHAR *wide = malloc((length + 1) * sizeof *wide);
  char *text = malloc(3 * length + 1);
  bool done = wide != NULL && text != NULL && read_memory(process, at, wide, length * sizeof *wide);
  if (done) *size = to_utf8(wide, (long)length, text, 3 * length + 1);
  free(wide);
  if (done) return text;
  free(text);
  return NULL;
}

/* ---- command line ---- */

/* Splits as Microsoft's C runtime does, and writes words ended by NUL. */
static long put_words(WCHAR **words, int count, char *out, size_t size) {
  size_t used = 0;
  for (int i = 0; i < count && used + 1 < size; i++) used += to_utf8(words[i], -1, out + used, size - used) + 1;
  return (long)used;
}

long os_command_line(os_pid pid, char *out, size_t size) {
  UNICODE_STRING line = {0};
  HANDLE process = process_open(pid, READABLE);
  char *parameters = process == NULL ? NULL : parameters_of(process);
  long length = 0;
  if (parameters != NULL && read_memory(process, parameters + COMMAND_IN_PARAMETERS, &line, sizeof line) && line.Length > 0) {
    WCHAR *text = calloc(line.Length / sizeof *text + 1, sizeof *text), **words = NULL;
    int count = 0;
    if (text != NULL && read_memory(process, line.Buffer, text, line.Length)) words = CommandLineToArgvW(text, &count);
    if (words != NULL) length = put_words(words, count, out, size);
    if (words != NULL) LocalFree(words);
    free(text);
  }
  if (process != NULL) CloseHandle(process);
  return length;
}

bool os_executable(os_pid pid, char *out, size_t size) {
  WCHAR path[WIDE_SIZE];
  DWORD length = WIDE_SIZE;
  HANDLE process = process_open(pid, PROCESS_QUERY_LIMITED_INFORMATION);
  bool known = process != NULL && QueryFullProcessImageNameW(process, 0, path, &length);
  if (process != NULL) CloseHandle(process);
  if (known) (void)to_utf8(path, (long)length, out, size);
  return known;
}

/* ---- environment ---- */

static char *environment; /* variables ended by NUL */
static size_t environment_size;

bool os_environ_load(os_pid pid) {
  void *block = NULL;
  uint64_t bytes = 0;
  HANDLE process = process_open(pid, READABLE);
  char *parameters = process == NULL ? NULL : parameters_of(process);
  free(environment);
  environment = NULL;
  environment_size = 0;
  if (parameters != NULL && read_memory(process, parameters + ENVIRONMENT_IN_PARAMETERS, &block, sizeof block) &&
      read_memory(process, parameters + ENVIRONMENT_SIZE_IN_PARAMETERS, &bytes, sizeof bytes) && bytes / 2 <= ENVIRONMENT_MOST)
    environment = read_text(process, block, (size_t)bytes / sizeof(WCHAR), &environment_size);
  if (process != NULL) CloseHandle(process);
  return environment != NULL;
}

const char *os_environ_value(const char *name) {
  size_t length = strlen(name);
  for (const char *at = environment, *end = environment + environment_size; at != NULL && at < end && *at != 0; at += strlen(at) + 1)
    if (_strnicmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
  return NULL;
}

bool os_environ(os_pid pid, const char *name, char *out, size_t size) {
  const char *value = os_environ_load(pid) ? os_environ_value(name) : NULL;
  if (value == NULL || strlen(value) >= size) return false;
  memcpy(out, value, strlen(value) + 1);
  return true;
}

/* ---- what Windows does not show ---- */

bool os_descriptor(os_pid pid, int fd, char *out, size_t size) {
  (void)pid;
  (void)fd;
  (void)out;
  (void)size;
  return false;
}

bool os_each_descriptor(os_pid pid, bool (*visit)(const char *target, void *of), void *of) {
  (void)pid;
  (void)visit;
  (void)of;
  return false;
}

/* All processes see the same files. */
int os_path_seen_by(os_pid pid, const char *path) {
  struct os_file_info info;
  (void)pid;
  if (os_path_info(path, &info)) return 1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}
