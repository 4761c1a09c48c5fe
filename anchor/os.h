/*
 * What the core needs of an operating system: identities, boundaries, gated children, and the one function
 * that signals. linux.c implements it; another system is another file.
 */
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

/* A process, beyond doubt. `unique` is 0 where the kernel has none. */
struct identity {
  pid_t pid;
  uint64_t start, unique;
};

/* One live member of a tree, seen through `handle` (-1 on a system without handles: then it is our own child). */
struct member {
  struct identity id;
  int handle;
  pid_t ppid, pgid, sid;
  uid_t uid;
  uint64_t cpu_ms, rss_kb;
  int threads; /* a zombie with more than one has only lost its first */
  char state; /* STATE_HIDDEN: see os_look */
  char command[COMMAND_SIZE];
};

#define STATE_HIDDEN '?'

struct boundary {
  int cgroup;              /* directory descriptor, -1 when there is none */
  char path[PATH_SIZE];    /* below the cgroup root */
  uint64_t inode;
  char note[NOTE_SIZE];    /* why not stronger; empty when it is as strong as can be */
};

/* What the test-only switch HOLDFAST_ANCHOR_WEAKEN takes away. */
struct weaken {
  bool cgroup, inode, pidfd, children, controllers;
};
extern struct weaken weaken;

/* Reads the switch, forgets what a parent process knew. Call first, and after a fork. False when /proc shows another
   world than the one we live in: its numbers would mean strangers here. */
bool os_init(void);
/* Whether the process at the other end of a local socket has our effective uid or is root; root could trace us anyway. */
bool os_peer_trusted(int fd);
/* Closes every descriptor above this one. */
void os_close_above(int fd);

/* descriptors.c */
#define POLL_MAX 512
/* Stay free while connections are accepted and processes adopted: for files, directories and handles that are open for a moment. */
#define DESCRIPTORS_RESERVED 16
/* RLIMIT_NOFILE of this process. */
long os_descriptor_limit(void);
/* How many more descriptors can be opened, counted up to `most`. */
long os_descriptors_free(long most);
/*
 * poll(2) without the entries whose descriptor is -1: the kernel refuses a set that is larger than RLIMIT_NOFILE. When it
 * refuses all the same, each descriptor is polled alone and the call lasts a moment; it never fails. At most POLL_MAX are open.
 */
void os_poll(struct pollfd *set, nfds_t count, int timeout_ms);

/* linux-signals.c: blocks every signal; a descriptor that they are read from, or -1. Only KILL, STOP and our own faults end or stop us. */
int os_hear_signals(void);
/* For a command: every disposition the default; nothing blocked. */
void os_default_signals(void);
void os_unblock_signals(void);

/* True when, since the last call, a lookup failed for lack of descriptors or memory: a process not found may still exist. */
bool os_look_failed(void);
uint64_t os_now_ms(void);
bool os_become_reaper(void);
/* "unique", "handle" or "number": how sure identities are here. */
const char *os_strength(void);

/* The same process. The unique id decides where both have one: start times are shown shifted in another time namespace. */
bool os_same(const struct identity *one, const struct identity *other);
bool os_identity(pid_t pid, struct identity *out);
/* Opens a handle and proves through it that it is `id` (os_same); fills `out`. Without a unique id the caller needs a
   second fact. False: errno is ESRCH when it is gone, EACCES when it is hidden and cannot be told from another. */
bool os_open(const struct identity *id, struct member *out);
/* True also for a process that /proc hides from us (hidepid): its state is STATE_HIDDEN, its start time 0, its uid -1, its
   parent 0 and its command empty; handle, unique id, group and session are known. False: errno is ESRCH when there is no
   such process, anything else when nothing can be said of it. */
bool os_look(pid_t pid, struct member *out);
void os_close(struct member *member);

/* Numbers that are refused whatever the evidence: 1 and below, ourselves, our ancestors, our own group. */
bool os_untouchable(pid_t pid);
/* The choke point: the only place in Holdfast that signals a process. 0 or errno. */
int os_signal(const struct member *member, int signal);

/*
 * Collects the live descendants of `root` (itself not included), parents first, each verified through an open handle:
 * its parent was a verified member at a moment when it was its child. At most `max`; `skip` (may be NULL) leaves
 * out a process and all below it. `signal`, unless 0, is sent to each in the moment it is found: who runs from one
 * process to the next is caught only so. Returns the count; -1 when processes cannot be listed.
 */
long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(pid_t), int signal);
/* The direct ones only. */
long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(pid_t), int signal);
/* How many children we have, zombies included, that `skip` does not name; -1 when they cannot be listed. */
long os_count_children(bool (*skip)(pid_t));
/* Looks again through the handle, also at its parent; false when it is gone. It may have become hidden since. */
bool os_refresh(struct member *member);
/* Ourselves as a root. */
void os_self(struct member *out);

/* Reads the target's environment, for as many questions as one likes; false when there is none or it may not be read. */
bool os_environ_load(pid_t pid);
/* A variable of the environment read last; NULL when unset. */
const char *os_environ_value(const char *name);
/* Value of a variable in the target's environment; false when unset or unreadable. */
bool os_environ(pid_t pid, const char *name, char *out, size_t size);
/* Everyone alive whose environment says so. A marker alone is reported, never signalled. */
long os_marked(const char *name, const char *value, struct member *out, long max);
/* Its words, each ended by a NUL (the last perhaps not); 0 when there are none or they may not be read. */
long os_command_line(pid_t pid, char *out, size_t size);
bool os_executable(pid_t pid, char *out, size_t size);
/* What its descriptor leads to; false when it is closed or may not be known. */
bool os_descriptor(pid_t pid, int fd, char *out, size_t size);
/* Parent first, as far as they can be proven; at most `max`. */
long os_ancestors(const struct member *of, struct identity *out, long max);
/* False when processes cannot be listed. */
bool os_each_process(void (*visit)(pid_t pid));
/* TCP ports it listens on, as it sees the network, ascending; none when its descriptors may not be read. */
long os_ports(pid_t pid, uint16_t *out, long max);
/* It sees the same network as we do. */
bool os_same_network(pid_t pid);
/* Whether anybody listens on it, as we see the network. */
bool os_port_open(uint16_t port);
/* Sockets come and go: look again from here on. */
void os_ports_forget(void);
/* Path below the cgroup root; false when there is none. */
bool os_cgroup_of(pid_t pid, char *out, size_t size);

/* The cgroup directory for all runs of one place, an instance in its directory, made when it may be; false and a note otherwise. */
bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size);
void os_cgroup_leave(const char *runs);
void os_boundary_open(struct boundary *boundary, const char *runs, const char *run_id, const char *note);
/* One that exists; false when it does not. */
bool os_boundary_find(struct boundary *boundary, const char *runs, const char *run_id);
/* Opens a recorded boundary; false unless path and inode both match. */
bool os_boundary_reopen(struct boundary *boundary, const char *path, uint64_t inode);
/* "populated", "empty", "gone" (the path is missing, or is another cgroup now) or "unknown" (it cannot be seen from here). */
const char *os_boundary_look(const char *path, uint64_t inode);
/* A directory below the cgroup mount, as records name it. */
void os_cgroup_recorded(const char *path, char *out, size_t size);
/* Every cgroup of a run below the mount that this user made, of whatever instance; `place`: that instance, with the device
   and inode of its directory. */
void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id));
/* Refused, like any signal, when we or an ancestor would be hit. */
bool os_boundary_kill(const struct boundary *boundary);
/* True also when there is no cgroup: then only ancestry speaks. */
bool os_boundary_empty(const struct boundary *boundary);
bool os_boundary_holds(const struct boundary *boundary, pid_t pid);
/* Nobody in it runs, forks or dies of anything but KILL until it is thawed. False: it could not be done within the time. */
bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms);
void os_boundary_thaw(const struct boundary *boundary);
/* Moves a process, and whoever it forks from then on; false and errno. */
bool os_boundary_take(const struct boundary *boundary, pid_t pid);
/* A descriptor that polls POLLPRI when emptiness changes, -1 without cgroup. */
int os_boundary_events(const struct boundary *boundary);
/* Also of cgroups nested in it. -1: it cannot be read. */
long os_boundary_members(const struct boundary *boundary, struct member *out, long max);
void os_boundary_remove(struct boundary *boundary);

/* At most: bytes, tasks (threads count), thousandths of a CPU. */
enum limit { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPUS, LIMITS };

/* What the kernel counted for all of a run; what is not known was not counted here. */
struct usage {
  bool cpu_known, memory_known, tasks_known;
  uint64_t cpu_ms, peak_kb, peak_tasks;
};

/* Before the child is forked; 0 is no limit. False: `why` names the controller, and nothing may run. */
bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], pid_t supervisor, char *why, size_t size);
/* Where directories for a limit are made beside the cgroup of all runs; false: nowhere. */
bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size);
/* How a limit would be set from here, and where: "v2", "v1", the same with "-refused" where that may not be written, or NULL. */
const char *os_limits_look(enum limit kind, char *where, size_t size);
/* Its controller. */
const char *os_limit_name(enum limit kind);
/* Our run has a limit: what is taken out of it would leave that behind. */
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

/* A child that has done everything but exec, and waits at the gate. */
struct child {
  struct identity id;
  int gate;             /* write one byte: go; close: leave */
  int status;           /* child_report; end of file: exec'd */
  int in, out, err;     /* our ends; -1 when there is none. A PTY: in == out == master */
  int slave;            /* of a PTY, kept open so that the kernel keeps what was written */
};

struct child_report {
  int step, error;
};
/* The steps in order; `none` in a report means: ready at the gate. */
enum step { STEP_NONE, STEP_DIRECTORY, STEP_BOUNDARY, STEP_PTY, STEP_STDIO, STEP_FORK, STEP_SESSION, STEP_CWD, STEP_EXEC, STEP_SPEC, STEP_LIMIT };
extern const char *const step_names[];

/* Forks the child, whose first report comes on `status`. Returns the step that failed (errno set) or STEP_NONE. */
enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out);
/* Ends a child that is not to run, and waits for it. */
void os_dismiss(struct child *child);
/* No child but this one: when it is a zombie, the tree below us is empty. False when that cannot be told. */
bool os_only_child(pid_t pid);
/* Hard to kill for want of memory, where we may be, and with as many descriptors as we may have. Commands get neither. */
void os_protect_us(void);
/* Win the CPU in a fork storm, where we may; or be as before. */
void os_prefer_us(bool on);

#endif
