/* Windows: creates the leader suspended and inside the job. No instruction of it runs before the gate is opened. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const step_names[] = {"none", "directory", "boundary", "pty", "stdio", "fork", "session", "cwd", "exec", "spec", "limit"};

#define PIPE_SIZE (64u * 1024)

/* The leader of the run, of which an anchor creates one. */
static struct {
  os_pid pid;
  HANDLE process, thread; /* open for the life of the anchor, so that the pid is not reused */
  HPCON console;
  int terminal;          /* descriptor of the terminal; -1: none */
  bool reported, opened, discarded;
} leader = {.terminal = -1};

/* The child's standard handles: inherited ends of pipes, or a console. */
struct ends {
  HANDLE in, out, err;
};

os_pid leader_pid(void) { return leader.pid; }

static void close_handle(HANDLE handle) {
  if (handle != NULL && handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
}

static void close_ends(struct ends *ends) {
  int error = errno;
  close_handle(ends->in);
  if (ends->err != ends->out) close_handle(ends->err);
  close_handle(ends->out);
  *ends = (struct ends){0};
  errno = error;
}

/* An overlapped end for us, and a synchronous, inheritable end for a child. `access` is what the child may do. */
static int pipe_pair(DWORD access, HANDLE *child_end) {
  static unsigned number;
  WCHAR name[96];
  SECURITY_ATTRIBUTES *own = only_this_user(), inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  if (own == NULL) return -1;
  swprintf(name, 96, L"\\\\.\\pipe\\holdfast-io-%lu-%llx-%u", GetCurrentProcessId(), (unsigned long long)creation_time(GetCurrentProcess()), ++number);
  /* Duplex on our side, because only a read shows that the other side is gone. */
  HANDLE ours = CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                 PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, 1, PIPE_SIZE, PIPE_SIZE, 0, own);
  if (ours == INVALID_HANDLE_VALUE) return fail_descriptor();
  DWORD attributes = access == GENERIC_READ ? FILE_WRITE_ATTRIBUTES : FILE_READ_ATTRIBUTES;
  *child_end = CreateFileW(name, access | attributes, 0, &inherited, OPEN_EXISTING, 0, NULL);
  if (*child_end == INVALID_HANDLE_VALUE) {
    (void)fail_last();
    CloseHandle(ours);
    return -1;
  }
  int fd = slot_open(SLOT_PIPE, ours);
  if (fd < 0) CloseHandle(*child_end);
  return fd;
}

static bool open_pipes(const struct child_spec *spec, struct child *out, struct ends *ends) {
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  if (spec->stdin_null) {
    ends->in = CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
    if (ends->in == INVALID_HANDLE_VALUE) return fail_last();
  } else if ((out->in = pipe_pair(GENERIC_READ, &ends->in)) < 0) {
    return false;
  }
  if ((out->out = pipe_pair(GENERIC_WRITE, &ends->out)) < 0) return false;
  ends->err = ends->out;
  return spec->merge || (out->err = pipe_pair(GENERIC_WRITE, &ends->err)) >= 0;
}

/* One descriptor reads the terminal's output and writes its input. */
static bool open_console(const struct child_spec *spec, struct child *out, struct ends *ends) {
  int input = pipe_pair(GENERIC_READ, &ends->in);
  if (input < 0) return false;
  if ((out->out = pipe_pair(GENERIC_WRITE, &ends->out)) < 0 || !pipe_join(out->out, input)) {
    os_close(input);
    return false;
  }
  out->in = leader.terminal = out->out;
  HRESULT result = CreatePseudoConsole((COORD){.X = (SHORT)spec->cols, .Y = (SHORT)spec->rows}, ends->in, ends->out, 0, &leader.console);
  if (result != S_OK) return fail_with(HRESULT_CODE(result));
  if ((out->slave = slot_open(SLOT_CONSOLE, NULL)) < 0) console_close();
  return out->slave >= 0;
}

/* Closing a console waits until its output was read, so another thread does it while this one reads. */
static DWORD WINAPI close_console(void *console) {
  ClosePseudoConsole((HPCON)console);
  return 0;
}

void console_close(void) {
  HANDLE thread = leader.console == NULL ? NULL : CreateThread(NULL, 0, close_console, leader.console, 0, NULL);
  leader.console = NULL;
  close_handle(thread);
}

/* This process, which was started in a group of its own, ignores Ctrl-C, and so would a process on a terminal. */
static bool stop_ignoring_interrupts(void) { return SetConsoleCtrlHandler(NULL, FALSE); }

/* Creates the process with an explicit list of what it inherits, inside the job. */
static bool create(const struct child_spec *spec, HANDLE job, struct ends *ends, const WCHAR *program, WCHAR *line, WCHAR *block, const WCHAR *cwd) {
  STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES}};
  HANDLE inherited[3] = {ends->in, ends->out, ends->err};
  PROCESS_INFORMATION process;
  SIZE_T size = 0;
  (void)InitializeProcThreadAttributeList(NULL, 2, 0, &size);
  if ((start.lpAttributeList = malloc(size)) == NULL) return false;
  bool listed = InitializeProcThreadAttributeList(start.lpAttributeList, 2, 0, &size), done = listed;
  done = done && UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_JOB_LIST, &job, sizeof job, NULL, NULL);
  /* A process with a console gets its standard handles there. A group of its own would ignore Ctrl-C, which a terminal
     must not. */
  if (spec->pty) {
    done = done && stop_ignoring_interrupts();
    done = done && UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, leader.console, sizeof leader.console, NULL, NULL);
  } else {
    start.StartupInfo.hStdInput = ends->in;
    start.StartupInfo.hStdOutput = ends->out;
    start.StartupInfo.hStdError = ends->err;
    size_t listed_size = (spec->merge ? 2 : 3) * sizeof *inherited; /* a handle that is listed twice is refused */
    done = done && UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherited, listed_size, NULL, NULL);
  }
  DWORD flags = EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT | CREATE_SUSPENDED | (spec->pty ? 0 : CREATE_NEW_PROCESS_GROUP);
  done = done && CreateProcessW(program, line, NULL, NULL, !spec->pty, flags, block, cwd, &start.StartupInfo, &process);
  if (!done) (void)fail_last();
  int error = errno;
  if (listed) DeleteProcThreadAttributeList(start.lpAttributeList);
  free(start.lpAttributeList);
  errno = error;
  if (!done) return false;
  leader.pid = (os_pid)process.dwProcessId;
  leader.process = process.hProcess;
  leader.thread = process.hThread;
  return true;
}

static bool is_directory(const char *path, WCHAR *out) {
  if (!to_wide(path, out, WIDE_SIZE)) return false;
  if (wcslen(out) > MAX_PATH - 2) return fail_with(ERROR_FILENAME_EXCED_RANGE); /* no process can have it as its directory */
  DWORD attributes = GetFileAttributesW(out);
  if (attributes == INVALID_FILE_ATTRIBUTES) return fail_last();
  errno = ENOTDIR;
  return (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

static void end_leader(void) {
  (void)TerminateProcess(leader.process, KILLED_CODE); /* it never ran, and has no children */
  close_handle(leader.thread);
  leader.thread = NULL;
}

static enum step spawn(const struct child_spec *spec, HANDLE job, struct child *out, struct ends *ends) {
  WCHAR program[WIDE_SIZE], cwd[WIDE_SIZE];
  BOOL inside = FALSE;
  if (job == NULL) return errno = EACCES, STEP_BOUNDARY;
  if (spec->pty ? !open_console(spec, out, ends) : !open_pipes(spec, out, ends)) return spec->pty ? STEP_PTY : STEP_STDIO;
  if (spec->cwd[0] != 0 && !is_directory(spec->cwd, cwd)) return STEP_CWD;
  if (!find_program(spec->argv[0], spec->env, program, WIDE_SIZE)) return STEP_EXEC;
  WCHAR *line = command_line(spec->argv, spec->verbatim), *block = line == NULL ? NULL : environment_block(spec->env);
  bool created = block != NULL && create(spec, job, ends, program, line, block, spec->cwd[0] == 0 ? NULL : cwd);
  int error = errno;
  free(line);
  free(block);
  errno = error;
  if (!created) return STEP_EXEC;
  /* Never trusted: a system that ignored the list would let the tree escape. */
  if (!IsProcessInJob(leader.process, job, &inside) || (!inside && !AssignProcessToJobObject(job, leader.process))) {
    (void)fail_last();
    end_leader();
    return STEP_BOUNDARY;
  }
  out->id = identity_of(leader.pid, creation_time(leader.process));
  out->gate = slot_open(SLOT_FLAG, NULL);
  out->status = slot_open(SLOT_FLAG, NULL);
  HANDLE child = NULL, self = GetCurrentProcess();
  if (!DuplicateHandle(self, leader.process, self, &child, 0, FALSE, DUPLICATE_SAME_ACCESS)) (void)fail_last();
  else if (out->gate >= 0 && out->status >= 0 && child_add(leader.pid, child)) return STEP_NONE;
  error = errno;
  close_handle(child);
  end_leader();
  errno = error;
  return STEP_FORK;
}

static void close_child(struct child *child) {
  const int all[] = {child->gate, child->status, child->in, child->out == child->in ? -1 : child->out, child->err, child->slave};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] >= 0) os_close(all[i]);
}

const bool os_starts_warm = false;

enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out) {
  struct ends ends = {0};
  *out = (struct child){.gate = -1, .status = -1, .in = -1, .out = -1, .err = -1, .slave = -1};
  enum step step = spawn(spec, job_of(boundary), out, &ends);
  close_ends(&ends);
  int error = errno;
  if (step == STEP_NONE) flag_raise(out->status);
  else close_child(out);
  errno = error;
  return step;
}

/* ---- the gate ---- */

void os_gate_open(struct child *child) {
  leader.opened = ResumeThread(leader.thread) != (DWORD)-1;
  if (!leader.opened) end_leader();
  close_handle(leader.thread);
  leader.thread = NULL;
  os_close(child->gate);
  child->gate = -1;
  flag_raise(child->status);
}

void os_gate_discard(struct child *child) {
  leader.discarded = true;
  end_leader();
  os_close(child->gate);
  child->gate = -1;
  flag_raise(child->status);
}

int os_child_report(struct child *child, struct child_report *out) {
  struct slot *status = slot_of(child->status, SLOT_FLAG);
  if (status != NULL) (void)InterlockedExchange(&status->flag, 0);
  if (!leader.reported) {
    leader.reported = true;
    *out = (struct child_report){.step = STEP_NONE};
    return 1;
  }
  return leader.opened || leader.discarded ? -1 : 0;
}

void os_kill_gated_child(struct child *child) {
  end_leader();
  close_child(child);
  os_reap(leader.pid);
}

/* Everything the run started is in its job, also what its leader did not start itself. */
bool os_only_child(os_pid pid) { return pid == leader.pid && job_is_empty(); }

/* ---- the terminal, and the request to end ---- */

void os_terminal_resize(const struct child *child, uint16_t rows, uint16_t cols) {
  (void)child;
  if (leader.console != NULL) (void)ResizePseudoConsole(leader.console, (COORD){.X = (SHORT)cols, .Y = (SHORT)rows});
}

/* Ctrl-Z at the start of a line. */
bool os_terminal_end_input(const struct child *child, bool line_open) {
  const char *text = line_open ? "\r\x1a\r" : "\x1a\r";
  long done = os_write(child->in, text, strlen(text));
  return done > 0 || errno != EAGAIN;
}

/* Every process that shares our console gets Ctrl-Break. On a terminal, which is another console, Ctrl-C is typed. Only
 * an anchor shares a console with the run: in another mode Ctrl-Break would end this process and its caller. */
long os_request_end(const struct member *list, long count) {
  if (leader.process == NULL) return 0;
  for (long i = 0; i < count; i++)
    if (list[i].state == 'T') (void)os_signal(&list[i], OS_CONT);
  bool asked = leader.terminal >= 0 ? os_write(leader.terminal, "\x03", 1) == 1 : GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0);
  return asked ? count : 0;
}
