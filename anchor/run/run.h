/* The state of one anchor. A run goes through the phases below, and ends only when its whole tree is empty, or is given
 * up. An anchor is started for one run. When a process of the run is adopted as a service, the anchor serves both runs,
 * each with its own directory, key, owner and STOP, until the last one has ended. */
#ifndef RUN_H
#define RUN_H

#include "format/json-write.h"
#include "os/os.h"
#include "launch/heartbeat.h"
#include "run/spool.h"
#include "format/frame.h"

#define CONNECTIONS 16
#define RESIDUE_KEPT 64
#define STDIN_BUFFER (64u * 1024)
#define FOREVER UINT64_MAX
#define SEND_EVERY_MS 2 /* interval of reports on one stream; the report of its end waits as long for the end of the run */
#define KNOWN_SIZE (16384 * sizeof(struct identity)) /* as many as a tree is collected */

/* In order; a phase can be left out. What ends one is in deadlines.c, or is a request or a report of the child. */
enum phase {
  STARTING,  /* the child goes to the gate */
  WARM,      /* it waits there, and its command is not known: START has not come */
  GATED,     /* it waits there for GO, and the owner was notified */
  CLOSED,    /* GO can no longer come: the child exits, and no instruction of the command runs */
  OPENED,    /* GO came: the child executes the command, or fails to */
  RUNNING,
  SETTLING,  /* the leader has ended; other processes have a moment to end by themselves */
  STOPPING,  /* all processes were asked to end, and have the grace period */
  SWEEPING,  /* they are killed, again and again */
  DRAINING,  /* none is left, and the rest of the output is read */
  SAVING,    /* the exit file could not be written, and is tried again */
  ABANDONED, /* processes that survived KILL are given up, and the exit file is written */
};

struct stop {
  bool set;
  char reason[32], actor[256], request[128];
};

/* The request to abandon processes that survived KILL. */
struct abandon {
  bool asked; /* done when the phase is ABANDONED */
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
  bool dirty, unsent[2]; /* dirty: changed since the last turn; unsent: to the owner, to the caller */
  bool withheld; /* withheld: the anchor does not read it now, so its silence does not count */
  bool grown;    /* its pipe holds READ_SIZE bytes, if the system allows it */
  uint64_t sent_at, retry_at;
};

struct input {
  int fd;
  bool closed, end_asked, dirty;
  uint64_t send_at; /* when `dirty` is sent; 0: at once */
  uint64_t accepted, written, end_at;
  uint8_t *buffer; /* a ring buffer of STDIN_BUFFER bytes */
  uint8_t last;
};

struct connection {
  int fd;
  bool authenticated;
  bool blocked; /* the peer does not read what it was sent */
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
  bool warm;              /* true until START: the anchor has no run yet, and leaves nothing if it ends */
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
  struct connection *caller; /* the foreground client that the run is bound to; NULL: none is connected here */
  struct identity owner_process; /* pid 0: it cannot be identified from here */
  uint64_t epoch;

  struct stop stop;
  uint64_t stop_at;
  struct abandon abandon;
  uint64_t go_at, gate_closed_at; /* 0: not yet, or never */
  struct child_report failure;

  bool leader_done, leader_zombie, leader_saved;
  int64_t leader_code; /* -1: not this one */
  int leader_signal;
  bool empty, end_sent;
  bool unproven;           /* empty as far as can be known: `doubt` says why it is not proven */
  char doubt[NOTE_SIZE];
  uint64_t unseen_since, ask_at; /* 0: not in doubt */

  struct residue residue[RESIDUE_KEPT];
  uint64_t residue_count, processes, reaped, reaped_before;
  uint64_t cleaned, cleaned_start; /* processes ended besides the leader; the newest start time among them */
  bool escaped;
  const char *kill_mode;
  uint64_t cpu_ms, peak_kb;

  uint64_t started_at; /* when the command was executed; 0: it was not */
  uint64_t overall_from, output_at, withheld_since, owner_lost_at, settle_at, kill_at, sweep_at, report_at, drain_until,
      check_at, save_at;
  uint64_t accept_at; /* no accept before this time, because the last one failed; 0: at once */
  bool more_to_reap, reported; /* reported: survivors were reported */
  int sweeps;
  bool killed_whole; /* the kernel has killed all processes of the cgroup */

  /* Adopted: its leader becomes a child of the anchor only when its parents have died. */
  bool adopted, leader_gone;
  int leader_handle;       /* readable when the leader has ended; -1: none, or already handled */
  os_pid session;          /* a process in another session has detached itself */
  struct identity *known;  /* all members at the last snapshot */
  long known_count;
  uint64_t refresh_at;
};

extern struct run runs[RUNS_MAX];

/* loop.c */
/* Number of runs that this anchor serves. */
int runs_active(void);
void init_run(struct run *run);
/* Publishes for the launcher which runs this anchor serves and when they end. */
void publish_heartbeat(void);
/* Where cgroups of runs are created; NULL: nowhere. */
extern const char *cgroups_of_runs;

/* start.c */
/* Prepares the run up to the gate, or ends this process. */
void prepare_run(struct run *run, int fd, const char *run_id, const char *instance_dir, const char *cgroups, const char *note);
/* Reads the child's reports: first that it is at the gate; after GO, why it could not execute the command, or that it
 * could. */
void read_status(struct run *run);
void close_gate(struct run *run);
/* Reads START, for which a warm anchor has waited. */
void take_start(struct run *run);

/* directory.c */
/* Until START the name of the directory begins with a dot: no supervisor takes it for a run. */
bool open_directory(struct run *run, const char *instance_dir);
/* Gives the directory of a warm anchor its run's name; it is created again if another program has removed it. */
bool name_directory(struct run *run);
void remove_directory(struct run *run);
/* Creates the socket; also called again after it was deleted. */
bool listener_open(struct run *run);
/* Writes anchor.json, for a supervisor that finds this directory without a record. */
bool save_anchor_file(struct run *run);
/* Checks at an interval that the socket and the directory exist. */
void check_socket_and_directory(struct run *run, uint64_t now);
bool path_gone(const char *path);

/* streams.c */
/* Opens spools as START requests, for the ends of the child's pipes. False: out of memory. */
bool streams_open(struct run *run, const struct frame *start);
bool stream_wants_read(const struct stream *stream);
void stream_read(struct run *run, struct stream *stream);
/* Sends the owner what it has not been sent yet, before the end. */
void streams_report(struct run *run, uint64_t now);
/* Once per turn: retries failed writes, reports changes to the owner, and adjusts the no-output clock. */
void streams_settle(struct run *run, uint64_t now);
/* When streams_settle next has something to do. */
uint64_t streams_due(const struct run *run);
bool streams_ended(const struct run *run);
void streams_abandon(struct run *run);
/* Checks the spool files for damage by other programs, and reports lost bytes. */
void streams_check(struct run *run);
void streams_drain(struct run *run, uint64_t now);
/* Frees memory and spool files; the pipe ends are already closed. */
void streams_free(struct run *run);

/* stdin.c */
void input_accept(struct run *run, struct connection *from, uint64_t offset, const uint8_t *data, size_t length);
void input_close_at(struct run *run, uint64_t offset);
bool input_wants_write(const struct run *run);
void input_write(struct run *run);
void input_reader_gone(struct run *run);
void send_input(struct run *run, struct connection *connection);
/* To the owner and the caller. */
void report_input(struct run *run);
bool is_terminal_size(uint64_t rows, uint64_t cols);
void input_resize(struct run *run, uint64_t rows, uint64_t cols);

/* deadlines.c */
/* Does what is due. */
void step(struct run *run, uint64_t now);
/* How long the loop may wait before the next step. */
uint64_t next_deadline(const struct run *run, uint64_t now);

#endif
