/*
 * One anchor's state. A run goes
 *
 *     gated ──GO──▶ running ──STOP, deadline, owner loss, leftovers──▶ exiting ──tree empty, output drained──▶ the end
 *
 * and ends only when its whole tree is gone. An anchor is started for one run. Another begins when a process of it is
 * adopted as a service: then it serves both, each with a directory, key, owner and STOP of its own, until the last has ended.
 */
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
#define KNOWN_SIZE (16384 * sizeof(struct identity)) /* as many as a tree is looked at */

enum phase { GATED = 1, RUNNING, EXITING };

struct stop {
  bool set;
  char reason[32], actor[256], request[128];
};

/* Who said that we need not wait for those who survived their KILL. */
struct abandon {
  bool asked, done; /* done: the end is settled, whoever dies now */
  char actor[256], request[128];
};

struct policy {
  bool service, sweep_escapes;
  uint64_t grace, settle, drain, kill_report, overall, no_output, owner_loss, backstop; /* 0 overall or no_output: none */
};

struct stream {
  int number; /* 1 stdout, 2 stderr */
  int fd;     /* -1: ended, or never was */
  struct spool spool;
  uint8_t *held; /* read but not yet stored: the file system refuses */
  size_t held_used;
  bool dirty, withheld; /* withheld: we do not read it now, and its silence is ours */
  uint64_t told_at, retry_at;
};

struct input {
  int fd;
  bool closed, end_asked, dirty;
  uint64_t accepted, written, end_at;
  uint8_t *buffer; /* a ring of STDIN_BUFFER bytes */
  uint8_t last;
};

struct connection {
  int fd;
  bool greeted;
  uint64_t since;
  uint8_t *in, *out;
  size_t in_used, in_size, out_used, out_sent;
};

struct residue {
  struct identity id;
  const char *kind;
  char command[COMMAND_SIZE];
};

/* JSON text from START or ADOPT by which the run is found without the store. The anchor stores it and does not parse it. */
#define SCOPE_SIZE 2048

struct served {
  bool active, given_up; /* given up: abandoned and over, while the anchor goes on; `boundary` and `known` still tell whose they are */
  char id[64], instance[64], key[80], directory[PATH_SIZE], instance_directory[PATH_SIZE];
  char scope[SCOPE_SIZE];
  int dir;
  int listener;
  ino_t socket_inode;
  enum phase phase;
  struct policy policy;
  struct child child;
  struct identity anchor;
  pid_t launcher; /* 0: none, or it died */
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
  bool ready, executed, gate_used; /* ready: at the gate, and welcomed */
  uint64_t gate_closed_at;
  struct child_report failure;

  bool leader_done, leader_zombie, leader_saved;
  int leader_code, leader_signal; /* -1: not this one */
  bool empty, told_end;

  struct residue residue[RESIDUE_KEPT];
  uint64_t residue_count, processes, reaped, reaped_before;
  uint64_t cleaned, cleaned_start; /* ended besides the leader; the newest start time among them */
  bool escaped;
  const char *kill_mode;
  uint64_t cpu_ms, peak_kb;

  uint64_t started_at, overall_from, output_at, withheld_since, owner_lost_at, settle_at, kill_at, sweep_at, report_at, drain_until,
      check_at, save_at, accept_at; /* accept_at: not before, because the last accept failed */
  bool terminating, more_to_reap, swept_once, reported; /* reported: survivors have been named */
  int sweeps;

  /* Adopted: its first process is a child of ours only when that one's parents have died. */
  bool adopted, leader_gone;
  int leader_handle;       /* readable when it has ended; -1: none, or heard */
  pid_t session;           /* who is in another one has detached itself */
  struct identity *known;  /* everybody who was in it at the last look */
  long known_count;
  uint64_t look_at;
};

extern struct served runs[RUNS_MAX];
/* The one that is being served now. Whoever turns to another turns back. */
extern struct served *serving;
#define run (*serving)

/* How many runs this anchor serves. */
int runs_active(void);

/* streams.c */
/* Spools as START says, and the ends of the child's pipes. False: there is no memory. */
bool streams_open(const struct frame *start);
bool stream_wants_read(const struct stream *stream);
void stream_read(struct stream *stream);
void streams_settle(uint64_t now);
bool streams_ended(void);
void streams_abandon(void);
/* Checks the spool files for damage by other programs, and reports lost bytes. */
void streams_check(void);
void streams_drain(uint64_t now);
/* Its memory and files; its ends are closed. */
void streams_free(void);
void input_accept(struct connection *from, uint64_t offset, const uint8_t *data, size_t length);
void input_close_at(uint64_t offset);
bool input_wants_write(void);
void input_write(void);
void input_reader_gone(void);
bool is_terminal_size(uint64_t rows, uint64_t cols);
void input_resize(uint64_t rows, uint64_t cols);

/* owners.c */
void owners_accept(uint64_t now);
void owner_adopt_first(int fd);
bool connection_read(struct connection *connection);
void connection_flush(struct connection *connection);
void connection_drop(struct connection *connection);
void connections_finish(uint64_t patience_ms);
struct out connection_out(struct connection *connection, uint8_t type);
void connection_send(struct connection *connection, struct out *out);
void tell_all(uint8_t type, void (*fill)(struct out *, const void *), const void *data);
void tell_failed(struct connection *connection, enum step step, int error);
void tell_welcome(struct connection *connection);
void refuse(struct connection *connection, const char *code, const char *message);
void put_stop(struct out *out, const void *unused);
bool backlogged(const struct connection *connection);
void drop_speechless(uint64_t now);
bool listener_open(void);
const char *tier(void);

/* run.c */
/* The peer process; pid 0: it is not visible in this pid namespace. */
pid_t peer_of(int fd);
void read_status(void);
void close_gate(void);
bool save_facts(void);
bool open_directory(const char *instance_dir);
void remove_directory(void);
void begin_serving(struct served *slot);
/* Tells the launcher which runs this anchor serves and when they end. Turns to the first run. */
void publish_heartbeat(void);
/* Where cgroups of runs are made; NULL: nowhere. */
extern const char *cgroups_of_runs;

/* adopt.c, signal.c, members.c */
void adopt_asked(struct connection *connection, const struct frame *frame);
void signal_asked(struct connection *connection, const struct frame *frame);
void members_asked(struct connection *connection, const struct frame *frame);

/* ending.c */
void request_stop(const char *reason, const char *actor, const char *request, uint64_t grace);
/* False: there are no survivors to give up. */
bool request_abandon(const char *actor, const char *request);
void reap(void);
/* Everybody of this run, in `members`, each sent the signal in the moment it is found; how many. */
long collect(int signal);
void advance(uint64_t now);
uint64_t next_deadline(uint64_t now);
/* The end of this run; of this process, when it was the last. */
void leave(void);

/* Memory that costs nothing until it is touched; NULL: there is none. */
void *reserve(size_t size);
void give_back(void *memory, size_t size);

#endif
