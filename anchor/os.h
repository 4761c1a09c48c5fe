/* The interface to the operating system: identities, boundaries, gated children, and the one function that signals.
 * The linux-*.c files implement it. */
#ifndef OS_H
#define OS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PATH_SIZE 1024
#define NOTE_SIZE 256
#define COMMAND_SIZE 32

/* Identifies a process. `unique` is 0 if the kernel has no unique ids. */
struct identity {
  pid_t pid;
  uint64_t start, unique;
};

/* One live process of a tree, verified through `handle` (-1 on a system without handles: then it is a child of
 * ours). */
struct member {
  struct identity id;
  int handle;
  pid_t ppid, pgid, sid;
  uid_t uid;
  uint64_t cpu_ms, rss_kb;
  int threads; /* a zombie with more than one has only lost its first thread */
  char state; /* STATE_HIDDEN: see os_read_process */
  char command[COMMAND_SIZE];
};

#define STATE_HIDDEN '?'

struct boundary {
  int cgroup;              /* directory descriptor, -1 if there is none */
  char path[PATH_SIZE];    /* below the cgroup root */
  uint64_t inode;
  char note[NOTE_SIZE];    /* why the boundary is not stronger; empty if it is as strong as possible */
};

/* Features that the test-only variable HOLDFAST_ANCHOR_WEAKEN disables. */
struct test_disable {
  bool cgroup, inode, pidfd, children, controllers;
};
extern struct test_disable test_disable;

/* Reads the variable and drops cached facts of the parent process. Call first, and after a fork. False if /proc
 * belongs to another pid namespace, where its pids mean other processes. */
bool os_init(void);
/* True if the process at the other end of a local socket has our effective uid or is root, which could trace us
 * anyway. */
bool os_peer_trusted(int fd);
/* Closes every descriptor above this one. */
void os_close_above(int fd);

/* descriptors.c */
#define POLL_MAX 512
/* Kept free while connections are accepted and processes adopted, for files, directories and handles that are open
 * for a moment. */
#define DESCRIPTORS_RESERVED 16
/* RLIMIT_NOFILE of this process. */
long os_descriptor_limit(void);
/* Number of descriptors that can still be opened, counted up to `most`. */
long os_descriptors_free(long most);
/* poll(2) without the entries whose descriptor is -1, because the kernel refuses a set that is larger than
 * RLIMIT_NOFILE. If it still refuses, each descriptor is polled alone and the call takes a moment; it never fails.
 * At most POLL_MAX descriptors can be open. */
void os_poll(struct pollfd *set, nfds_t count, int timeout_ms);

/* linux-signals.c: blocks every signal and returns a descriptor that reads them, or -1. Only KILL, STOP and our own
 * faults end or stop this process. */
int os_open_signal_fd(void);
/* For a command: resets every disposition to the default; blocks nothing. */
void os_default_signals(void);
void os_unblock_signals(void);

/* True if, since the last call, a lookup failed for lack of descriptors or memory: a process that was not found may
 * still exist. */
bool os_lookup_failed(void);
uint64_t os_now_ms(void);
bool os_become_reaper(void);
/* "unique", "handle" or "number": how reliable identities are on this kernel. */
const char *os_strength(void);

/* True for the same process. The unique id decides if both have one, because another time namespace shifts start
 * times. */
bool os_same(const struct identity *one, const struct identity *other);
bool os_identity(pid_t pid, struct identity *out);
/* Opens a handle and verifies through it that the process is `id` (os_same); fills `out`. Without a unique id the
 * caller needs a second fact. False: errno is ESRCH if it is gone, EACCES if it is hidden and cannot be
 * distinguished from another. */
bool os_open(const struct identity *id, struct member *out);
/* Reads a process. Also true for one that /proc hides (hidepid): its state is STATE_HIDDEN, its start time 0, its
 * uid -1, its parent 0 and its command empty; handle, unique id, group and session are known. False: errno is ESRCH
 * if there is no such process, another value if nothing is known about it. */
bool os_read_process(pid_t pid, struct member *out);
void os_close(struct member *member);

/* True for pids that are never signalled: 1 and below, this process, its ancestors, its own process group. */
bool os_untouchable(pid_t pid);
/* The only function in Holdfast that signals a process. Returns 0 or errno. */
int os_signal(const struct member *member, int signal);

/* Collects the live descendants of `root` (not itself), parents first, each verified through an open handle: its
 * parent was a verified member while it was its child. At most `max`; `skip(pid, of)` (may be NULL) leaves out a process and
 * its descendants. `signal`, unless 0, is sent to each at the moment it is found, because a chain of forking
 * processes would escape otherwise. Returns the count; -1 if processes cannot be listed. */
long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(pid_t pid, const void *of), const void *of, int signal);
/* Collects children only. */
long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(pid_t pid, const void *of), const void *of, int signal);
/* Counts our children, including zombies, except those that `skip` accepts; -1 if they cannot be listed. */
long os_count_children(bool (*skip)(pid_t pid, const void *of), const void *of);
/* Reads the process again, including its parent; false if it is gone. It may have become hidden since. */
bool os_refresh(struct member *member);
/* This process as a root. */
void os_self(struct member *out);

/* Loads a process's environment for os_environ_value; false if there is none or it cannot be read. */
bool os_environ_load(pid_t pid);
/* A variable of the environment loaded last; NULL if unset. */
const char *os_environ_value(const char *name);
/* Reads one variable of a process's environment; false if unset or unreadable. */
bool os_environ(pid_t pid, const char *name, char *out, size_t size);
/* Collects live processes with this variable. A marker alone is reported, never signalled. */
long os_marked(const char *name, const char *value, struct member *out, long max);
/* Reads the command line, its words ended by NUL (perhaps not the last); 0 if there is none or it cannot be read. */
long os_command_line(pid_t pid, char *out, size_t size);
bool os_executable(pid_t pid, char *out, size_t size);
/* Reads the target of a descriptor; false if it is closed or unreadable. */
bool os_descriptor(pid_t pid, int fd, char *out, size_t size);
/* Collects ancestors from the parent on, as far as they can be verified; at most `max`. */
long os_ancestors(const struct member *of, struct identity *out, long max);
/* False if processes cannot be listed. */
bool os_each_process(void (*visit)(pid_t pid));
/* Lists the TCP ports it listens on in its network namespace, ascending; none if its descriptors cannot be read. */
long os_ports(pid_t pid, uint16_t *out, long max);
/* True if it is in our network namespace. */
bool os_same_network(pid_t pid);
/* True if a process listens on the port in our network namespace. */
bool os_port_open(uint16_t port);
/* Drops the cached list of sockets. */
void os_ports_forget(void);
/* Path below the cgroup root; false if there is none. */
bool os_cgroup_of(pid_t pid, char *out, size_t size);

/* Creates the cgroup directory for all runs of one instance directory (`place`); otherwise false and a note. */
bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size);
void os_cgroup_leave(const char *runs);
void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note);
/* Opens an existing boundary; false if there is none. */
bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id);
/* Opens a recorded boundary; false unless path and inode both match. */
bool os_boundary_reopen(struct boundary *boundary, const char *path, uint64_t inode);
/* "populated", "empty", "gone" (the path is missing or is another cgroup) or "unknown" (it is not visible from
 * here). */
const char *os_boundary_state(const char *path, uint64_t inode);
/* Converts a directory below the cgroup mount to its path in records. */
void os_cgroup_recorded(const char *path, char *out, size_t size);
/* Visits every cgroup of a run that this user created, of any instance; `place` is that instance with the device and
 * inode of its directory. */
void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id));
/* Refused, like any signal, if it would hit this process or an ancestor. */
bool os_boundary_kill(const struct boundary *boundary);
/* Also true without a cgroup: then only ancestry identifies members. */
bool os_boundary_empty(const struct boundary *boundary);
bool os_boundary_holds(const struct boundary *boundary, pid_t pid);
/* Freezes all its processes until they are thawed; only KILL ends them meanwhile. False: not done within the time. */
bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms);
void os_boundary_thaw(const struct boundary *boundary);
/* Moves a process into the boundary; its later children start there. False and errno. */
bool os_boundary_move(const struct boundary *boundary, pid_t pid);
/* Returns a descriptor that polls POLLPRI when emptiness changes, -1 without cgroup. */
int os_boundary_events(const struct boundary *boundary);
/* Collects its processes, also those in nested cgroups. -1: it cannot be read. */
long os_boundary_members(const struct boundary *boundary, struct member *out, long max);
void os_boundary_remove(struct boundary *boundary);

/* Units: bytes, tasks (including threads), thousandths of a CPU. */
enum limit { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPUS, LIMITS };

/* Resource usage that the kernel counted for a whole run. */
struct usage {
  bool cpu_known, memory_known, tasks_known;
  uint64_t cpu_ms, peak_kb, peak_tasks;
};

/* Sets limits before the child is forked; 0 is no limit. False: `why` names the controller, and nothing may run. */
bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], pid_t supervisor, char *why, size_t size);
/* The v1 directory for a limit that belongs to the cgroup of all runs; false if there is none. */
bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size);
/* How and where a limit would be set from here: "v2", "v1", the same with "-refused" if it is not writable, or NULL. */
const char *os_limits_probe(enum limit kind, char *where, size_t size);
/* The name of its controller. */
const char *os_limit_name(enum limit kind);
/* True if our run has a limit, which an adopted process would lose. */
bool os_limited(void);
/* "memory" (a process was killed at the limit), "pids" (a fork was refused) or NULL. */
const char *os_limit_hit(const struct boundary *boundary);
void os_usage(const struct boundary *boundary, struct usage *usage);

struct child_spec {
  char *const *argv;
  char *const *env;
  const char *cwd;
  bool set_umask;
  mode_t umask;
  bool pty, merge, stdin_null;
  unsigned short rows, cols;
};

/* A child that has done everything except exec, and waits at the gate. */
struct child {
  struct identity id;
  int gate;             /* write one byte: go; close: exit */
  int status;           /* child_report; end of file: exec'd */
  int in, out, err;     /* our ends; -1 if there is none. With a PTY: in == out == master */
  int slave;            /* of a PTY, kept open so that the kernel keeps the output */
};

struct child_report {
  int step, error;
};
/* The steps in order; `none` in a report means ready at the gate. */
enum step { STEP_NONE, STEP_DIRECTORY, STEP_BOUNDARY, STEP_PTY, STEP_STDIO, STEP_FORK, STEP_SESSION, STEP_CWD, STEP_EXEC, STEP_SPEC, STEP_LIMIT };
extern const char *const step_names[];

/* Forks the child, whose first report comes on `status`. Returns the step that failed (errno set) or STEP_NONE. */
enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out);
/* Kills a child that must not run, and reaps it. */
void os_kill_gated_child(struct child *child);
/* True if it is our only child: if it is a zombie, the tree is empty. False if it cannot be determined. */
bool os_only_child(pid_t pid);
/* Protects this process from the OOM killer if permitted, and raises its descriptor limit. Commands get neither. */
void os_harden_self(void);
/* Raises our CPU priority if permitted, to win against a fork bomb; or restores it. */
void os_raise_priority(bool on);

#endif
