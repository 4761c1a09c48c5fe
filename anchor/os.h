/* The interface to the operating system, and the only one: the files without a prefix include no system header, and
 * know no system but through it. posix-*.c implement what Linux and macOS share, linux-*.c and darwin-*.c the rest
 * there. Every function that can fail sets errno to a standard value. */
#ifndef OS_H
#define OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- process ids, users, signals ---- */

typedef int32_t os_pid;
typedef uint32_t os_uid;
#define OS_UID_UNKNOWN UINT32_MAX

/* What a process can be sent. A system with other numbers maps them: see os_signal_of. */
enum { OS_KILL = 9, OS_TERM = 15, OS_CONT = 18, OS_STOP = 19 };

/* ---- streams, sockets, polling ----
 *
 * A descriptor is an int, -1 for none: on POSIX a file descriptor, elsewhere a number that only these functions know. Only
 * os_poll and the functions that say so wait. */

/* Reads up to `size` bytes. 0: the end. -1: errno is EAGAIN if there is nothing now; EIO on a terminal whose last other
 * side was closed. */
long os_read(int fd, void *data, size_t size);
/* The same without removing the bytes; sockets only. */
long os_peek(int fd, void *data, size_t size);
/* Writes what there is room for. -1: errno is EAGAIN if there is none; another value if nobody can read it. */
long os_write(int fd, const void *data, size_t size);
/* Number of bytes that can be read now, as far as it is known. */
size_t os_readable(int fd);
void os_close(int fd);

/* `wants` and `ready` are sums of these. OS_GONE is only in `ready`: the other side has hung up, or the descriptor is not
 * usable. It is reported without being asked for: for the writing end of a pipe, when the last reader is gone. */
enum { OS_READ = 1, OS_WRITE = 2, OS_PRIORITY = 4, OS_GONE = 8 };
struct os_poll {
  int fd; /* -1: skipped */
  short wants, ready;
};
#define POLL_MAX 512
/* Waits until a descriptor is ready or the time is over (-1: no limit), and fills `ready`. If the system refuses a set,
 * each descriptor is polled alone and the call takes a moment; it never fails. At most POLL_MAX descriptors are open. */
void os_poll(struct os_poll *set, size_t count, int timeout_ms);

/* Local sockets, for this user only. Listens at `path`, where an old socket is removed; `identity` tells
 * os_listener_present whether the path still names this one. */
int os_listen(const char *path, int backlog, uint64_t *identity);
bool os_listener_present(const char *path, uint64_t identity);
int os_accept(int listener);
/* Prepares a connection that this process inherited, whose number there is `inherited`: it is not inherited further.
 * Returns its descriptor, or -1. */
int os_take_connection(int inherited);
/* The process at the other end; 0 if it is not visible from here. */
os_pid os_peer(int fd);
/* True if it has our effective uid or is root, which could trace us anyway. */
bool os_peer_trusted(int fd);

/* Kept free while connections are accepted and processes adopted, for files, directories and handles that are open for
 * a moment. */
#define DESCRIPTORS_RESERVED 16
/* How many descriptors this process may have. */
long os_descriptor_limit(void);
/* Number of descriptors that can still be opened, counted up to `most`. */
long os_descriptors_free(long most);

/* Standard input of a mode that answers questions. Waits. */
long os_read_input(void *data, size_t size);

/* ---- files and directories ----
 *
 * `dir` is a descriptor of a directory; `name` is an entry of it, and a link there is not followed. These calls may wait
 * for the disk. */

struct os_file_info {
  uint64_t device, inode, size, modified; /* modified: in the finest unit the system has, only for comparison */
};

/* For this user only. False and EEXIST if it exists. */
bool os_directory_create(const char *path);
/* -1 unless the path is a directory, and not a link to one. */
int os_directory_open(const char *path);
/* Removes an empty directory. */
void os_directory_remove(const char *path);

/* Opens a file that is written only by appending, and that another program may truncate meanwhile without a hole being
 * written. What it contained before is removed. */
int os_file_append_to(int dir, const char *name);
/* Creates an empty file; false if one exists. */
bool os_file_create(int dir, const char *name);
/* Returns what was written, -1 if nothing was. Closed with os_close. */
long os_file_append(int fd, const void *data, size_t size);
bool os_file_truncate(int fd, uint64_t size);
/* Offset of the first hole; the size if there is none or holes are not known; -1: it cannot be told. */
int64_t os_file_hole(int fd);
void os_file_remove(int dir, const char *name);
/* Replaces the file atomically: a reader never sees half a file. */
bool os_file_save(int dir, const char *name, const void *data, size_t size);

/* Of an open file or directory; of an entry; of a path, whose links are followed. */
bool os_file_info(int fd, struct os_file_info *out);
bool os_file_info_at(int dir, const char *name, struct os_file_info *out);
bool os_path_info(const char *path, struct os_file_info *out);
void os_path_remove(const char *path);

/* Locks an open directory or file that the caller passed to us, and keeps the lock with the caller's own descriptor. 0,
 * EWOULDBLOCK if another has it, or another errno. */
int os_lock_inherited(int fd);

/* What follows the last separator of the path. */
const char *os_file_name(const char *path);
bool os_is_absolute(const char *path);
extern const char *const os_program_suffix; /* "" or ".exe" */

/* ---- memory and time ---- */

/* Zeroed memory that is allocated when first touched; NULL if there is none. */
void *os_map(size_t size);
/* The same, for os_anchor_start to share. */
void *os_map_shared(size_t size);
void os_unmap(void *memory, size_t size);
/* Monotonic; suspend does not count. */
uint64_t os_now_ms(void);
/* Since 1970. */
uint64_t os_wall_ms(void);

/* ---- this process ---- */

/* Reads the test-only variable HOLDFAST_ANCHOR_WEAKEN and drops cached facts of the parent process. Call first, and
 * after a fork. False if this process cannot see itself, and pids therefore mean other processes. */
bool os_init(void);
/* Why os_init failed, and what the user can do if anything. */
extern const char *const os_init_problem;
/* The words of our command line as UTF-8. */
char **os_arguments(int *argc, char **argv);
os_pid os_own_pid(void);
/* Changes when the parent has died. */
os_pid os_parent(void);
bool os_become_reaper(void);
/* Protects this process from the OOM killer if permitted, and raises its descriptor limit. Commands get neither. */
void os_harden_self(void);
/* Raises our CPU priority if permitted, to win against a fork bomb; or restores it. */
void os_raise_priority(bool on);

/* A descriptor that is readable after a request to stop this process, and when a child has ended. From now on only KILL,
 * STOP and our own faults end or stop this process. */
int os_events_open(void);
/* Takes one request, and describes its sender in `actor`; false if there is none, and the descriptor is not readable
 * any more. */
bool os_next_stop_request(int events, char *actor, size_t size);

/* For a launcher. Closes all that it inherited but the standard descriptors, and leaves the caller's session. */
void os_detach(void);
/* Closes the standard descriptors, and leaves the working directory. */
void os_release_caller(void);
struct os_anchor_start {
  const char *run_id, *directory;
  const char *cgroups; /* NULL: none */
  const char *note;
  int connection;
  void *shared; /* from os_map_shared; NULL: none */
  size_t shared_size;
  char *title; /* the memory of argv, where `ps` is to show what the new process is; NULL: none */
  size_t title_size;
};
/* Starts a process that is an anchor: by a fork that calls `body`, or by starting this binary in mode `run`. The connection
 * is passed on and stays open here. Returns its pid, -1 if it was not started. */
os_pid os_anchor_start(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *start, int connection));
/* In an anchor: the memory that its launcher shares; NULL if there is none. */
void *os_anchor_shared(size_t size);

/* ---- processes ---- */

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

struct boundary {
  int cgroup;              /* directory descriptor, -1 if there is none */
  char path[PATH_SIZE];    /* below the cgroup root */
  uint64_t inode;
  char note[NOTE_SIZE];    /* why the boundary is not stronger; empty if it is as strong as possible */
};

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

/* Collects the live descendants of `root` (not itself), parents first, each verified through an open handle: its
 * parent was a verified member while it was its child. At most `max`; `skip(pid, of)` (may be NULL) leaves out a process and
 * its descendants. `signal`, unless 0, is sent to each at the moment it is found, because a chain of forking
 * processes would escape otherwise. Returns the count; -1 if processes cannot be listed. */
long os_descendants(const struct member *root, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal);
/* Collects children only. */
long os_children(const struct member *parent, struct member *out, long max, bool (*skip)(os_pid pid, const void *of), const void *of, int signal);
/* Counts our children, including zombies, except those that `skip` accepts; -1 if they cannot be listed. */
long os_count_children(bool (*skip)(os_pid pid, const void *of), const void *of);
/* Reads the process again, including its parent; false if it is gone. It may have become hidden since. */
bool os_refresh(struct member *member);
/* This process as a root. */
void os_self(struct member *out);

/* Loads a process's environment for os_environ_value; false if there is none or it cannot be read. */
bool os_environ_load(os_pid pid);
/* A variable of the environment loaded last; NULL if unset. */
const char *os_environ_value(const char *name);
/* Reads one variable of a process's environment; false if unset or unreadable. */
bool os_environ(os_pid pid, const char *name, char *out, size_t size);
/* Collects live processes with this variable. A marker alone is reported, never signalled. */
long os_marked(const char *name, const char *value, struct member *out, long max);
/* Reads the command line, its words ended by NUL (perhaps not the last); 0 if there is none or it cannot be read. */
long os_command_line(os_pid pid, char *out, size_t size);
bool os_executable(os_pid pid, char *out, size_t size);
/* Reads the target of a descriptor; false if it is closed or unreadable. */
bool os_descriptor(os_pid pid, int fd, char *out, size_t size);
/* Collects ancestors from the parent on, as far as they can be verified; at most `max`. */
long os_ancestors(const struct member *of, struct identity *out, long max);
/* Calls `visit` with the target of each open descriptor until it returns true; false if it never did, or they cannot be
 * listed. */
bool os_each_descriptor(os_pid pid, bool (*visit)(const char *target, void *of), void *of);
/* Looks for a path as the process sees it. 1: it exists; 0: it does not; -1: it cannot be told. */
int os_path_seen_by(os_pid pid, const char *path);
/* False if processes cannot be listed. */
bool os_each_process(void (*visit)(os_pid pid));
/* Lists the TCP ports it listens on in its network namespace, ascending; none if its descriptors cannot be read. */
long os_ports(os_pid pid, uint16_t *out, long max);
/* True if it is in our network namespace. */
bool os_same_network(os_pid pid);
/* True if a process listens on the port in our network namespace. */
bool os_port_open(uint16_t port);
/* Drops the cached list of sockets. */
void os_ports_forget(void);
/* Path below the cgroup root; false if there is none. */
bool os_cgroup_of(os_pid pid, char *out, size_t size);

/* Creates the cgroup directory for all runs of one instance directory (`place`); otherwise false and a note. */
bool os_cgroup_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size);
void os_cgroup_leave(const char *runs);
/* True if a recorded path can be one of this system. */
bool os_is_boundary_path(const char *path);
/* Its word in records: "cgroup", "job" or "lineage"; "subreaper" if there is none. */
const char *os_boundary_kind(const struct boundary *boundary);
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
/* True if its processes were killed as a whole. Refused, like any signal, if it would hit this process or an ancestor. On a
 * system that cannot, they are killed one by one, and the answer is false. */
bool os_boundary_kill(const struct boundary *boundary);
/* Also true without a cgroup on a system with subreapers: then only ancestry identifies members. */
bool os_boundary_empty(const struct boundary *boundary);
bool os_boundary_holds(const struct boundary *boundary, os_pid pid);
/* Freezes all its processes until they are thawed; only KILL ends them meanwhile. False: not done within the time. */
bool os_boundary_freeze(const struct boundary *boundary, uint64_t patience_ms);
void os_boundary_thaw(const struct boundary *boundary);
/* Moves a process into the boundary; its later children start there. False and errno. */
bool os_boundary_move(const struct boundary *boundary, os_pid pid);
/* Returns a descriptor that is ready for OS_PRIORITY when emptiness changes, -1 without cgroup. */
int os_boundary_events(const struct boundary *boundary);
/* Takes note of the change, so that the descriptor is not ready any more. */
void os_boundary_events_read(int events);
/* Closes the boundary here; the processes stay in it. */
void os_boundary_close(struct boundary *boundary);
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
bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], os_pid supervisor, char *why, size_t size);
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
  uint32_t umask;
  bool pty, merge, stdin_null;
  bool verbatim; /* only Windows: the words after the first are not quoted for the command line */
  unsigned short rows, cols;
};

/* A child that has done everything except exec, and waits at the gate. */
struct child {
  struct identity id;
  int gate;             /* see os_gate_open; -1: used or discarded */
  int status;           /* readable when os_child_report has something */
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
/* Lets the child run the command. */
void os_gate_open(struct child *child);
/* Closes the gate: the child exits. */
void os_gate_discard(struct child *child);
/* Takes the child's next report: first that it is at the gate or failed before; after that only why the command could not
 * be executed. 1: a report; 0: none now; -1: no more will come, so after the gate was opened the command runs. */
int os_child_report(struct child *child, struct child_report *out);
/* The terminal of a child has another size; its processes are told. */
void os_terminal_resize(const struct child *child, uint16_t rows, uint16_t cols);
/* Types the end of input. `line_open`: the last byte did not end a line. False: there is no room now. */
bool os_terminal_end_input(const struct child *child, bool line_open);
/* Kills a child that must not run, and reaps it. */
void os_kill_gated_child(struct child *child);
/* True if it is our only child: if it is a zombie, the tree is empty. False if it cannot be determined. */
bool os_only_child(os_pid pid);

#endif
