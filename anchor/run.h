/* The state of one anchor. A run goes through
 *
 *     gated ──GO──▶ running ──STOP, deadline, owner loss, residue──▶ exiting ──tree empty, output drained──▶ ended
 *
 * and ends only when its whole tree is empty. An anchor is started for one run. When a process of the run is adopted
 * as a service, the anchor serves both runs, each with its own directory, key, owner and STOP, until the last one
 * has ended. */
#ifndef RUN_H
#define RUN_H

#include "json.h"
#include "os.h"
#include "heartbeat.h"
#include "spool.h"
#include "wire.h"

#define CONNECTIONS 16
#define RESIDUE_KEPT 64
#define STDIN_BUFFER (64u * 1024)
#define FOREVER UINT64_MAX
#define KNOWN_SIZE (16384 * sizeof(struct identity)) /* as many as a tree is collected */

enum phase { GATED = 1, RUNNING, EXITING };

struct stop {
  bool set;
  char reason[32], actor[256], request[128];
};

/* The request to abandon processes that survived KILL. */
struct abandon {
  bool asked, done; /* done: the end is decided, whatever dies now */
  char actor[256], request[128];
};

struct policy {
  bool service, sweep_escapes;
  uint64_t grace, settle, drain, kill_report, overall, no_output, owner_loss, backstop; /* overall and no_output: 0 for none */
};

struct stream {
  int number; /* 1 stdout, 2 stderr */
  int fd;     /* -1: ended, or not used */
  struct spool spool;
  uint8_t *held; /* read but not yet stored, because the file system refuses */
  size_t held_used;
  bool dirty, withheld; /* withheld: the anchor does not read it now, so its silence does not count */
  uint64_t sent_at, retry_at;
};

struct input {
  int fd;
  bool closed, end_asked, dirty;
  uint64_t accepted, written, end_at;
  uint8_t *buffer; /* a ring buffer of STDIN_BUFFER bytes */
  uint8_t last;
};

struct connection {
  int fd;
  bool authenticated;
  uint64_t since;
  uint8_t *in, *out;
  size_t in_used, in_size, out_used, out_sent;
};

struct residue {
  struct identity id;
  const char *kind;
  char command[COMMAND_SIZE];
};

/* JSON text from START or ADOPT by which the run is found without the store. The anchor stores it and does not parse
 * it. */
#define SCOPE_SIZE 2048

struct run {
  bool active, abandoned; /* abandoned: the run has ended while the anchor continues; `boundary` and `known` still identify its processes */
  char id[64], instance[64], key[80], directory[PATH_SIZE], instance_directory[PATH_SIZE];
  char scope[SCOPE_SIZE];
  int dir;
  int listener;
  uint64_t socket_inode;
  enum phase phase;
  struct policy policy;
  struct child child;
  struct identity anchor;
  os_pid launcher; /* 0: none, or it has died */
  struct boundary boundary;
  char limit_note[NOTE_SIZE]; /* why a limit could not be set */
  int boundary_events;
  struct stream streams[2];
  struct input input;
  bool pty;

  struct connection connections[CONNECTIONS];
  struct connection *owner;
  struct identity owner_process; /* pid 0: it cannot be identified from here */
  uint64_t epoch;

  struct stop stop;
  uint64_t stop_at;
  struct abandon abandon;
  bool ready, executed, gate_used; /* ready: the child is at the gate, and the owner was notified */
  uint64_t gate_closed_at;
  struct child_report failure;

  bool leader_done, leader_zombie, leader_saved;
  int64_t leader_code; /* -1: not this one */
  int leader_signal;
  bool empty, end_sent;

  struct residue residue[RESIDUE_KEPT];
  uint64_t residue_count, processes, reaped, reaped_before;
  uint64_t cleaned, cleaned_start; /* processes ended besides the leader; the newest start time among them */
  bool escaped;
  const char *kill_mode;
  uint64_t cpu_ms, peak_kb;

  uint64_t started_at, overall_from, output_at, withheld_since, owner_lost_at, settle_at, kill_at, sweep_at, report_at, drain_until,
      check_at, save_at, accept_at; /* accept_at: no accept before this time, because the last one failed */
  bool terminating, more_to_reap, swept_once, reported; /* reported: survivors were reported */
  int sweeps;

  /* Adopted: its leader becomes a child of the anchor only when its parents have died. */
  bool adopted, leader_gone;
  int leader_handle;       /* readable when the leader has ended; -1: none, or already handled */
  os_pid session;           /* a process in another session has detached itself */
  struct identity *known;  /* all members at the last snapshot */
  long known_count;
  uint64_t refresh_at;
};

extern struct run runs[RUNS_MAX];

/* Number of runs that this anchor serves. */
int runs_active(void);

/* streams.c */
/* Opens spools as START requests, for the ends of the child's pipes. False: out of memory. */
bool streams_open(struct run *run, const struct frame *start);
bool stream_wants_read(const struct stream *stream);
void stream_read(struct run *run, struct stream *stream);
void streams_settle(struct run *run, uint64_t now);
bool streams_ended(struct run *run);
void streams_abandon(struct run *run);
/* Checks the spool files for damage by other programs, and reports lost bytes. */
void streams_check(struct run *run);
void streams_drain(struct run *run, uint64_t now);
/* Frees memory and spool files; the pipe ends are already closed. */
void streams_free(struct run *run);
void input_accept(struct run *run, struct connection *from, uint64_t offset, const uint8_t *data, size_t length);
void input_close_at(struct run *run, uint64_t offset);
bool input_wants_write(struct run *run);
void input_write(struct run *run);
void input_reader_gone(struct run *run);
bool is_terminal_size(uint64_t rows, uint64_t cols);
void input_resize(struct run *run, uint64_t rows, uint64_t cols);

/* connections.c */
void connections_accept(struct run *run, uint64_t now);
void connections_add_owner(struct run *run, int fd);
bool connection_read(struct run *run, struct connection *connection);
void connection_flush(struct connection *connection);
void connection_drop(struct run *run, struct connection *connection);
void connections_finish(struct run *run, uint64_t patience_ms);
struct out connection_out(struct connection *connection, uint8_t type);
void connection_send(struct run *run, struct connection *connection, struct out *out);
void send_to_all(struct run *run, uint8_t type, void (*fill)(struct run *, struct out *, const void *), const void *data);
void send_failed(struct run *run, struct connection *connection, enum step step, int error);
void send_welcome(struct run *run, struct connection *connection);
void refuse(struct run *run, struct connection *connection, const char *code, const char *message);
void out_stop(struct run *run, struct out *out, const void *unused);
bool backlogged(const struct connection *connection);
void drop_silent_connections(struct run *run, uint64_t now);
bool listener_open(struct run *run);
const char *tier(struct run *run);

/* mode-run.c */
void read_status(struct run *run);
void close_gate(struct run *run);
bool save_anchor_file(struct run *run);
bool open_directory(struct run *run, const char *instance_dir);
void remove_directory(struct run *run);
void init_run(struct run *run);
/* Publishes for the launcher which runs this anchor serves and when they end. */
void publish_heartbeat(void);
/* Where cgroups of runs are created; NULL: nowhere. */
extern const char *cgroups_of_runs;

/* cmd-adopt.c, cmd-signal.c, cmd-members.c */
void handle_adopt(struct run *run, struct connection *connection, const struct frame *frame);
void handle_signal(struct run *run, struct connection *connection, const struct frame *frame);
void handle_members(struct run *run, struct connection *connection, const struct frame *frame);

/* ending.c */
void request_stop(struct run *run, const char *reason, const char *actor, const char *request, uint64_t grace);
/* False: there are no survivors to abandon. */
bool request_abandon(struct run *run, const char *actor, const char *request);
void reap_children(void);
/* Fills `members` with all processes of this run and returns their number. Each is sent the signal at the moment it
 * is found. */
long collect(struct run *run, int signal);
void step_deadlines(struct run *run, uint64_t now);
uint64_t next_deadline(struct run *run, uint64_t now);
/* Ends this run, and this process if it was the last run. */
void finish_run(struct run *run);

#endif
