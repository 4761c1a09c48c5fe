/* Identities and live processes; the one function that signals. */
#ifndef OS_PROCESS_H
#define OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t os_pid;
typedef uint32_t os_uid;
#define OS_UID_UNKNOWN UINT32_MAX

/* The signals that a process can be sent. A system with other numbers maps them: see os_signal_of. */
enum { OS_KILL = 9, OS_TERM = 15, OS_CONT = 18, OS_STOP = 19 };

#define PATH_SIZE 1024
#define NOTE_SIZE 256
#define COMMAND_SIZE 32

/* Identifies a process. `unique` is 0 if the kernel has no unique ids. */
struct identity {
  os_pid pid;
  uint64_t start, unique;
};

/* One live process of a tree, verified through `handle` (-1 on a system without handles: then it is a child of
 * ours). */
struct member {
  struct identity id;
  int handle;
  os_pid ppid, pgid, sid;
  os_uid uid;
  uint64_t cpu_ms, rss_kb;
  int threads; /* a zombie with more than one has only lost its first thread */
  char state; /* STATE_HIDDEN: see os_read_process */
  char command[COMMAND_SIZE];
};

#define STATE_HIDDEN '?'

/* True if, since the last call, a lookup failed for lack of descriptors or memory: a process that was not found may
 * still exist. */
bool os_lookup_failed(void);
/* "unique", "handle" or "number": how reliable identities are on this kernel. */
const char *os_strength(void);

/* True for the same process. The unique id decides if both have one, because another time namespace shifts start
 * times. */
bool os_same(const struct identity *one, const struct identity *other);
bool os_identity(os_pid pid, struct identity *out);
/* Opens a handle and verifies through it that the process is `id` (os_same); fills `out`. Without a unique id the
 * caller needs a second fact. False: errno is ESRCH if it is gone, EACCES if it is hidden and cannot be
 * distinguished from another. */
bool os_open(const struct identity *id, struct member *out);
/* Reads a process. Also true for one that /proc hides (hidepid): its state is STATE_HIDDEN, its start time 0, its
 * uid -1, its parent 0 and its command empty; handle, unique id, group and session are known. False: errno is ESRCH
 * if there is no such process, another value if nothing is known about it. */
bool os_read_process(os_pid pid, struct member *out);
/* True if the process with this unique id is alive, without reading anything else. False proves nothing: this system may
 * have no unique ids. */
bool os_is_alive(const struct identity *wanted);
void os_release(struct member *member);
/* Makes a descriptor of its handle that is readable when the process has ended; -1 if there are none. The member has no
 * handle any more. */
int os_exit_descriptor(struct member *member);
/* Waits until the process has ended; true if it has. Without a handle it waits as long as it may. */
bool os_wait_exit(const struct member *member, int timeout_ms);

/* True for pids that are never signalled: 1 and below, this process, its ancestors, its own process group. */
bool os_untouchable(os_pid pid);
/* The only function in Holdfast that signals a process; `signal` is OS_KILL, OS_TERM, OS_CONT or OS_STOP. Returns 0 or
 * errno; ENOTSUP: this system has no such signal. */
int os_signal(const struct member *member, int signal);
/* OS_KILL, OS_TERM, OS_CONT or OS_STOP for a signal number of this system, as frames have it; 0 for others. */
int os_signal_of(uint64_t number);
/* Asks all live processes of the list to end, also stopped ones. Returns how many could be asked; 0 on Windows, except
 * in the anchor of the run. */
long os_request_end(const struct member *list, long count);
/* True if it belongs to another user, and we are not root. */
bool os_is_foreign(const struct member *member);

/* An ended child. `code` is -1 if it was ended by `signal`. Times include its reaped children; the peak does not. */
struct os_ended {
  os_pid pid;
  int64_t code;
  int signal;
  uint64_t cpu_ms, peak_kb;
};
/* Returns an ended child, which keeps its pid, so the next call may return it again. 1: one; 0: there are children, and
 * none is known to have ended; -1: there are no children. */
int os_next_ended(struct os_ended *out);
/* Releases the pid of an ended child. */
void os_reap(os_pid pid);

/* Reads the process again, including its parent; false if it is gone. It may have become hidden since. */
bool os_refresh(struct member *member);
/* This process as a root. */
void os_self(struct member *out);

#endif
