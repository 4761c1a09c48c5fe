/* Internal to os/windows. */
#ifndef WINDOWS_H
#define WINDOWS_H

#include <winsock2.h>
#include <windows.h>

#include "format/sha256.h"
#include "os/os.h"

#define WIDE_SIZE 2048
#define UNIX_EPOCH 116444736000000000ULL /* as a FILETIME */
/* The exit code of a process that Holdfast ended: that of a process ended by SIGKILL in a shell. */
#define KILLED_CODE 137

/* text-and-errors.c */
/* Sets errno for an error of Windows. Return false and -1. */
bool fail_with(DWORD error);
bool fail_last(void);
int fail_descriptor(void);
/* False: not UTF-8, or too long (errno is set). */
bool to_wide(const char *text, WCHAR *out, size_t size);
/* An absolute path gets the prefix that lifts the limit of 260 characters. */
bool to_wide_path(const char *path, WCHAR *out, size_t size);
/* `length` in characters, -1 for a terminated string. Cut at the size, at a character border. */
size_t to_utf8(const WCHAR *text, long length, char *out, size_t size);
/* Hashes text to a name of 32 hexadecimal digits: the first half of its SHA-256. */
bool hash_name(const char *text, size_t length, char out[33]);
/* For objects that only this user may open; NULL: they cannot be created safely (errno is set). */
SECURITY_ATTRIBUTES *only_this_user(void);
/* True if the process runs as our user; -1 if it cannot be told. */
int same_user(HANDLE process);

/* io.c */
enum slot_kind { SLOT_FREE, SLOT_PIPE, SLOT_LISTENER, SLOT_DIRECTORY, SLOT_FILE, SLOT_FLAG, SLOT_JOB, SLOT_PROCESS, SLOT_CONSOLE };

struct transfer {
  OVERLAPPED overlapped;
  int fd;
  bool pending;
  DWORD error; /* of the last completed operation */
};

#define CHALLENGE_SIZE 32

struct slot {
  enum slot_kind kind;
  HANDLE handle;         /* NULL: none */
  HANDLE sink;           /* SLOT_PIPE: where it is written instead; NULL: none */
  struct transfer read;  /* of no bytes: it completes when there is something to read, or the other side is gone */
  struct transfer write;
  bool readable, ended;  /* ended: no more bytes will come */
  bool lingers;          /* closed, but its last bytes are still being written */
  char *held;            /* bytes being written */
  volatile LONG flag;    /* SLOT_FLAG: readable. Set by other threads, too */
  HANDLE wait;           /* SLOT_PROCESS: the registered wait */
  WCHAR *name;           /* SLOT_DIRECTORY: its path; SLOT_LISTENER: the pipe's name */
  DWORD challenge_left;  /* SLOT_PIPE: bytes of the client's challenge that have not come; 0: it is answered, or there is none */
  uint8_t challenge[CHALLENGE_SIZE];
};

/* Takes the handle over; on failure it is closed. -1: errno is set. */
int slot_open(enum slot_kind kind, HANDLE handle);
/* NULL and errno unless the descriptor is of this kind. */
struct slot *slot_of(int fd, enum slot_kind kind);
/* Ends os_poll; any thread may call it. */
void wake_poll(void);
/* Makes a flag readable; any thread may call it. */
void flag_raise(int fd);
/* No read is in progress any more, so that another process can go on with the handle. */
void pipe_release(struct slot *slot);
/* Writes to `to` from now on go where those to `from` went, which is no descriptor any more. */
bool pipe_join(int to, int from);
/* Waits a moment for writes in progress. */
void pipes_flush(void);

/* socket.c */
void listener_close(struct slot *slot);
bool listener_ready(const struct slot *slot);
/* Proves to the client that this process has written the file at the path of the socket. */
bool answer_challenge(struct slot *slot);

/* processes/process.c */
HANDLE member_process(const struct member *member);
/* Opens a process; NULL and errno. */
HANDLE process_open(os_pid pid, DWORD access);
/* A FILETIME: units of 100 ns since 1601. 0: unknown. */
uint64_t creation_time(HANDLE process);
struct identity identity_of(os_pid pid, uint64_t created);
bool has_ended(HANDLE process);
bool member_read(HANDLE process, os_pid pid, struct member *out);

/* processes/find-processes.c: one entry of a snapshot of all processes. */
struct listed {
  os_pid pid, ppid;
  uint64_t created;
  int threads;
  char command[COMMAND_SIZE];
};
/* Takes a snapshot, and returns its number of entries; -1 and errno. Valid until the next one. */
long list_processes(const struct listed **out);

/* this-process.c */
extern int events_descriptor;
/* Raises the events descriptor when the process has ended. */
bool watch_child(HANDLE process, HANDLE *wait);
/* Adds a child of this process, whose handle it takes over, for os_next_ended. */
bool child_add(os_pid pid, HANDLE process);

/* launch.c */
/* A note about the parts of its caller that the launcher could not leave, such as its job; "" if there are none. */
const char *detach_note(void);
/* In an anchor: its launcher has created the job of its run. */
bool launcher_has_job(void);

/* job.c */
/* Creates the job of a run, whose processes cannot leave it and end with its last handle. NULL and errno. */
HANDLE job_create(const char *runs, const char *run_id);
HANDLE job_of(const struct boundary *boundary);
/* True if no process is left in the job of this anchor's run. */
bool job_is_empty(void);
/* True if this process has ended a job: that of its run, if it is an anchor. */
bool has_killed_job(void);

/* limits.c: the limits that the job is created with. */
bool job_limits_apply(HANDLE job);

/* spawn.c: the leader of the run, 0 before there is one. Closes its console. */
os_pid leader_pid(void);
void console_close(void);

/* command-line.c */
/* A command line that the usual rules parse into argv; `verbatim`: the words after the first are not quoted. NULL and errno.
 * Freed with free(). */
WCHAR *command_line(char *const *argv, bool verbatim);
/* The sorted block of variables that CreateProcessW wants; NULL and errno. */
WCHAR *environment_block(char *const *env);
/* False: errno is ENOENT, or ENOEXEC for a batch file. */
bool find_program(const char *name, char *const *env, WCHAR *out, size_t size);

#endif
