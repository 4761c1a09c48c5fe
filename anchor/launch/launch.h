/* The state of one launcher, and what its files call of each other. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "launch/heartbeat.h"
#include "os/os.h"

#define CLIENTS_MAX 256
#define ACCEPT_RETRY_MS 100
#define RUN_ID_MAX 63
#define STUCK_MAX 64
#define STUCK_MS 5000 /* a process that survives KILL, sent once a second, for this long will not die of the next one */

enum client_state {
  CLIENT_NONE,
  CLIENT_NEW,     /* has sent nothing yet */
  CLIENT_PARTIAL, /* its first bytes are incomplete, and stay in the socket */
  CLIENT_HOLDING, /* a supervisor: the launcher does not exit */
};

struct client {
  enum client_state state;
  int fd;
  uint64_t since;
};

enum anchor_state {
  ANCHOR_ALIVE,
  ANCHOR_LOST,         /* dead, and its tree is not yet proven empty */
  ANCHOR_LOST_ZOMBIE,  /* lost, and not yet reaped, because a debugger traces it */
  ANCHOR_SWEPT_ZOMBIE, /* not yet reaped for the same reason, and its tree is proven empty */
};

struct anchor {
  enum anchor_state state;
  os_pid pid;
  char run_id[RUN_ID_MAX + 1]; /* the run it was started for */
  int64_t code;
  int signal;
  long killed;
  const char *kill_mode;
  uint64_t lost_at;
  struct heartbeat *heartbeat; /* NULL: it is not watched */
  void *kept;                  /* see os_anchor_start */
  uint64_t continued_at;       /* time of SIGCONT after which it has not run; 0: it runs */
  struct enforced {
    uint64_t owner_gone_at, kill_at; /* kill_at: TERM was sent, and KILL is due at this time */
    bool done;
  } ends[RUNS_MAX]; /* of the runs in its heartbeat */
};

/* A child that is not an anchor and does not die: its anchor abandoned it, or has died itself. The launcher kills it
 * again and again, but does not wait for it: neither before it records an anchor that died later, nor before it
 * exits. */
struct stuck {
  os_pid pid; /* not reaped, so the pid is not reused */
  uint64_t since;
};

struct launcher {
  const char *directory; /* of the instance */
  struct identity self;
  bool have_cgroup;
  char runs_cgroup[PATH_SIZE], note[NOTE_SIZE];
  char *title; /* the memory of argv, which `ps` shows */
  size_t title_size;

  struct client clients[CLIENTS_MAX];
  uint64_t accept_at; /* no accept before this time, because the last one failed; 0: at once */

  struct anchor *anchors;
  size_t anchor_count, anchor_room;
  os_pid *pids; /* of the anchors that are not reaped, ascending */
  size_t pid_count;
  bool child_ended; /* since the last check for orphans */
  struct stuck stuck[STUCK_MAX];
  int stuck_count;
  uint64_t clean_pause; /* until the next check of dead anchors; 0: there are none */
  uint64_t watch_at;    /* the next check of live anchors */
};

/* launch/connections.c */
struct client_count {
  int holding, pending, partial; /* pending: not holding, including partial */
};
struct client_count clients_count(const struct launcher *launcher);
/* Fills one entry for each client. */
void clients_poll(const struct launcher *launcher, struct os_poll set[CLIENTS_MAX]);
void clients_read(struct launcher *launcher, const struct os_poll set[CLIENTS_MAX], uint64_t now);
void clients_accept(struct launcher *launcher, int listener, uint64_t now);
void clients_send_lost(struct launcher *launcher, const struct anchor *anchor);

/* anchors.c */
/* Starts an anchor for the connection; `warm`: its first frame is WARM. If that fails, the client sees its connection close. */
void anchor_start(struct launcher *launcher, int connection, const char *run_id, bool warm);
/* Records the death of an anchor. Its processes are our children now. */
void anchor_lose(struct launcher *launcher, struct anchor *anchor, enum anchor_state state, int64_t code, int signal);
void anchor_forget(struct launcher *launcher, size_t at);
bool anchor_is_lost(const struct anchor *anchor);
/* Returns the runs of an anchor, at -1 to RUNS_MAX - 1: the run it was started for, and those in its heartbeat. NULL:
 * no run at this place. */
const char *anchor_run(const struct anchor *anchor, int at);
/* True for a pid that belongs to an anchor, until it is reaped. `of` is the launcher. */
bool anchor_has_pid(os_pid pid, const void *of);
/* Number of anchors whose runs are not swept. */
size_t anchors_left(const struct launcher *launcher);
void anchors_reap(struct launcher *launcher);

/* end-orphans.c */
/* Ends the processes of dead anchors. Returns true while some are left. */
bool orphans_end(struct launcher *launcher, uint64_t now);
/* True if only processes that do not die are left. */
bool orphans_are_stuck(const struct launcher *launcher, uint64_t now);
void orphan_reaped(struct launcher *launcher, os_pid pid);
/* Writes swept.json for one run, or for all runs of an anchor. */
void save_swept_run(const struct launcher *launcher, const struct anchor *anchor, const char *run_id, const char *emptiness);
void save_swept(const struct launcher *launcher, const struct anchor *anchor, const char *emptiness);
/* Opens the directory of a run; -1 if there is none. */
int run_directory_open(const struct launcher *launcher, const char *run_id);

/* silent-anchors.c */
/* Sends SIGCONT to anchors that do not run, and ends their runs that are overdue. A supervisor that holds does both
 * first. */
void anchors_watch(struct launcher *launcher, uint64_t now, bool held);

#endif
