/* `anchor launch`: starts anchors and is the subreaper above them. Each of its children is an anchor or a process of
 * a dead anchor, and the latter are killed. It reads only the first bytes of a connection, and exits when there is
 * neither a supervisor nor an anchor.
 *
 * The launcher also watches that anchors run (heartbeat.h). It sends SIGCONT to an anchor that does not run. If the
 * end of a run is overdue and its anchor still does not run, the launcher ends the run. A live supervisor does both
 * first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "modes.h"
#include "os.h"
#include "heartbeat.h"
#include "tree.h"
#include "wire.h"

#define CLIENTS_MAX 256
#define FIRST_HOLD_MS 10000  /* the supervisor that started the launcher died before HOLD */
#define HELLO_TIMEOUT_MS 10000
#define RUN_ID_MAX 63
#define REAP_ROUND 4096
#define PARTIAL_MS 20
#define ACCEPT_RETRY_MS 100
#define BACKLOG 1024
#define STUCK_MS 5000 /* a process that survives KILL, sent once a second, for this long will not die of the next one */
#define STUCK_MAX 64
#define WATCH_MS 2000
#define WATCH_HELD_MS 10000
#define SILENT_MS 10000         /* a running anchor beats every five seconds */
#define CONTINUE_MS 2000        /* SIGCONT takes effect at once */
#define CONTINUE_AGAIN_MS 30000 /* a debugger may have detached */
#define OVERDUE_MS 2000         /* a running anchor ends its runs on time */
#define HELD_SLACK_MS 30000     /* longer than a live supervisor needs */
#define GRACE_MOST_MS 10000

struct client {
  int fd;
  bool holds, partial; /* partial: its first bytes are incomplete */
  uint64_t since;
};

struct anchor {
  os_pid pid;
  char run_id[RUN_ID_MAX + 1];
  bool lost;  /* dead, and its tree is not yet proven empty */
  int code, signal;
  long killed;
  const char *kill_mode;
  uint64_t lost_at;
  struct heartbeat *heartbeat;
  uint64_t continued_at; /* time of SIGCONT after which it has not run; 0: it runs */
  bool unreaped;         /* killed by the launcher; waitpid fails while a debugger traces it */
  bool swept;            /* unreaped, and its runs are swept */
  struct enforced {
    uint64_t owner_gone_at, kill_at; /* kill_at: TERM was sent, and KILL is due at this time */
    bool done;
  } ends[RUNS_MAX];
};

/* A child that is not an anchor and does not die: its anchor abandoned it, or has died itself. The launcher kills it
 * again and again, but does not wait for it: neither before it records an anchor that died later, nor before it
 * exits. */
struct stuck {
  os_pid pid; /* not reaped, so the pid is not reused */
  uint64_t since;
};

static struct client clients[CLIENTS_MAX];
static struct anchor *anchors;
static size_t anchor_count, anchor_room;
static struct stuck stuck[STUCK_MAX];
static int stuck_count;
static uint64_t stuck_before; /* for `is_expected` */
static bool fresh_loss;
static uint64_t accept_at; /* no accept before this time, because the last one failed; 0: at once */
static char runs_cgroup[PATH_SIZE], note[NOTE_SIZE];
static bool have_cgroup;
static const char *instance_directory;
static struct identity me;
static char *title; /* the memory of argv, which `ps` shows */
static size_t title_size;

static bool is_anchor(os_pid pid, const void *unused) {
  (void)unused;
  for (size_t i = 0; i < anchor_count; i++)
    if (anchors[i].pid == pid && (!anchors[i].lost || anchors[i].unreaped)) return true;
  return false;
}

static void forget_anchor(size_t at) {
  if (anchors[at].heartbeat != NULL) os_unmap(anchors[at].heartbeat, sizeof *anchors[at].heartbeat);
  anchors[at] = anchors[--anchor_count];
}

/* Returns the runs of an anchor: the run it was started for, and those in its heartbeat. */
static const char *run_of(const struct anchor *anchor, int at) {
  if (at < 0) return anchor->run_id;
  if (anchor->heartbeat == NULL || anchor->heartbeat->runs[at].id[0] == 0) return NULL;
  return strcmp(anchor->heartbeat->runs[at].id, anchor->run_id) == 0 ? NULL : anchor->heartbeat->runs[at].id;
}

/* True for anchors, and for processes that were stuck at `stuck_before`. */
static bool is_expected(os_pid pid, const void *unused) {
  for (int i = 0; i < stuck_count; i++)
    if (stuck[i].pid == pid) return stuck[i].since + STUCK_MS <= stuck_before;
  return is_anchor(pid, unused);
}

static long count_unexpected(uint64_t when) {
  stuck_before = when;
  return os_count_children(is_expected, NULL);
}

/* ---- clients ---- */

static void client_drop(struct client *client) {
  os_close(client->fd);
  client->fd = -1;
  client->holds = false;
}

static void out_end_status(struct out *out, int code, int signal) {
  if (signal != 0) out_number(out, T_SIGNAL, (uint64_t)signal);
  else out_number(out, T_CODE, (uint64_t)code);
}

static void send_message(struct client *client, struct out *out) {
  if (out_end(out) && os_write(client->fd, out->data, out->used) == (long)out->used) return;
  client_drop(client); /* it does not read */
}

static void answer_hold(struct client *client) {
  uint8_t memory[2048];
  struct out out = {.data = memory, .size = sizeof memory};
  client->holds = true;
  out_begin(&out, F_LAUNCHER);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_number(&out, T_ANCHOR_PID, (uint64_t)me.pid);
  out_number(&out, T_ANCHOR_START, me.start);
  out_number(&out, T_ANCHOR_UNIQUE, me.unique);
  if (have_cgroup) out_text(&out, T_CGROUP, runs_cgroup);
  else out_text(&out, T_TIER_NOTE, note);
  send_message(client, &out);
}

static void send_anchor_lost(const struct anchor *anchor) {
  uint8_t memory[512];
  for (int i = 0; i < CLIENTS_MAX; i++) {
    if (clients[i].fd < 0 || !clients[i].holds) continue;
    struct out out = {.data = memory, .size = sizeof memory};
    out_begin(&out, F_ANCHOR_LOST);
    out_text(&out, T_RUN_ID, anchor->run_id);
    out_number(&out, T_ANCHOR_PID, (uint64_t)anchor->pid);
    out_end_status(&out, anchor->code, anchor->signal);
    send_message(&clients[i], &out);
  }
}

/* ---- starting an anchor ---- */

static bool is_valid_id(const char *id) {
  if (*id == 0) return false;
  for (; *id != 0; id++)
    if (!((*id >= 'a' && *id <= 'z') || (*id >= '0' && *id <= '9') || *id == '_' || *id == '-')) return false;
  return true;
}

static int become_anchor(const struct os_anchor_start *start, int connection) {
  return run_mode(start->run_id, start->directory, connection, start->cgroups, start->note, true);
}

static void start_anchor(int fd, const char *run_id) {
  if (anchor_count == anchor_room) {
    size_t room = anchor_room == 0 ? 64 : anchor_room * 2;
    struct anchor *more = realloc(anchors, room * sizeof *anchors);
    if (more == NULL) return; /* the client sees its connection close */
    anchors = more;
    anchor_room = room;
  }
  struct heartbeat *heartbeat = os_map_shared(sizeof *heartbeat);
  if (heartbeat != NULL) heartbeat->beat = os_now_ms(); /* otherwise the anchor is not watched */
  const struct os_anchor_start start = {
      .run_id = run_id, .directory = instance_directory, .cgroups = have_cgroup ? runs_cgroup : NULL, .note = note, .connection = fd,
      .shared = heartbeat, .shared_size = sizeof *heartbeat, .title = title, .title_size = title_size,
  };
  os_pid pid = os_anchor_start(&start, become_anchor);
  if (pid < 0) {
    if (heartbeat != NULL) os_unmap(heartbeat, sizeof *heartbeat);
    return;
  }
  struct anchor *anchor = &anchors[anchor_count++];
  *anchor = (struct anchor){.pid = pid, .kill_mode = "pid", .heartbeat = heartbeat};
  snprintf(anchor->run_id, sizeof anchor->run_id, "%s", run_id);
}

/* The first bytes show the request; they stay in the socket for the anchor. */
static void client_read(struct client *client) {
  uint8_t head[FRAME_HEAD + 5 + RUN_ID_MAX];
  long n = os_peek(client->fd, head, sizeof head);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0 || client->holds) {
    client_drop(client);
    return;
  }
  client->partial = (size_t)n < FRAME_HEAD;
  if (client->partial) return;
  if (head[4] == F_HOLD) {
    size_t all = 4 + ((size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24);
    if (all < FRAME_HEAD || all > sizeof head || os_read(client->fd, head, all) != (long)all) client_drop(client);
    else answer_hold(client);
    return;
  }
  size_t length = (size_t)n >= FRAME_HEAD + 5 ? (size_t)head[6] | (size_t)head[7] << 8 | (size_t)head[8] << 16 | (size_t)head[9] << 24 : 0;
  client->partial = head[4] == F_START && (size_t)n < FRAME_HEAD + 5 + length && length <= RUN_ID_MAX;
  if (client->partial) return;
  char id[RUN_ID_MAX + 1] = "";
  if (head[4] == F_START && head[5] == T_RUN_ID && length <= RUN_ID_MAX) memcpy(id, head + FRAME_HEAD + 5, length);
  if (is_valid_id(id)) start_anchor(client->fd, id);
  client_drop(client); /* the anchor has its own copy */
}

static void client_accept(int listener, uint64_t now) {
  int fd = os_accept(listener);
  accept_at = fd < 0 ? now + ACCEPT_RETRY_MS : 0; /* the connection stays in the backlog, so poll would return at once */
  if (fd < 0) return;
  if (!os_peer_trusted(fd)) {
    os_close(fd);
    return;
  }
  for (int i = 0; i < CLIENTS_MAX; i++) {
    if (clients[i].fd >= 0) continue;
    clients[i] = (struct client){.fd = fd, .since = now};
    client_read(&clients[i]);
    return;
  }
  os_close(fd);
}

/* ---- ending the processes of dead anchors ---- */

static void forget_stuck(os_pid pid) {
  for (int i = 0; i < stuck_count; i++)
    if (stuck[i].pid == pid) stuck[i--] = stuck[--stuck_count];
}

/* Adds those of the first `count` members that are our own children. */
static void add_stuck(long count, uint64_t now) {
  for (long i = 0; i < count && stuck_count < STUCK_MAX; i++) {
    bool known = members[i].ppid != os_own_pid();
    for (int j = 0; j < stuck_count; j++) known |= stuck[j].pid == members[i].id.pid;
    if (!known) stuck[stuck_count++] = (struct stuck){.pid = members[i].id.pid, .since = now};
  }
}

static void lose_anchor(struct anchor *anchor, int code, int signal) {
  anchor->lost = fresh_loss = true;
  anchor->lost_at = os_now_ms();
  anchor->code = code;
  anchor->signal = signal;
  send_anchor_lost(anchor);
}

static void reap_children(void) {
  struct os_ended ended;
  for (int reaped = 0; reaped < REAP_ROUND && os_next_ended(&ended) > 0; reaped++) {
    os_reap(ended.pid);
    forget_stuck(ended.pid);
    for (size_t i = 0; i < anchor_count; i++) {
      if (anchors[i].pid != ended.pid || (anchors[i].lost && !anchors[i].unreaped)) continue;
      anchors[i].unreaped = false;
      if (anchors[i].lost) break;
      /* 0: its run has ended. 1: it never started. Otherwise the anchor died, and its processes are our children
       * now. */
      if (anchors[i].swept || ended.code == 0 || ended.code == 1) forget_anchor(i);
      else lose_anchor(&anchors[i], ended.code < 0 ? 0 : (int)ended.code, ended.signal);
      break;
    }
  }
}

static long collect_residue(void *unused, int signal) {
  (void)unused;
  struct member self;
  os_self(&self);
  reap_children(); /* the zombies of a fork bomb must not use up all pids */
  long count = os_descendants(&self, members, tree_max(), is_anchor, NULL, signal);
  return count < 0 ? 0 : count;
}

static int open_run(const char *run_id) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%.800s/runs/%s", instance_directory, run_id);
  return os_directory_open(path);
}

static void save_swept_run(const struct anchor *anchor, const char *run_id, const char *emptiness) {
  char text[512];
  struct json json = {.data = text, .size = sizeof text};
  int dir = open_run(run_id);
  if (dir < 0) return;
  struct os_file_info info;
  if (os_file_info_at(dir, "swept.json", &info)) { /* written by the process that ended the run: keep it */
    os_close(dir);
    return;
  }
  json_key_string(&json, "{\"runId\":", run_id);
  json_raw(&json, ",\"anchorSignal\":");
  if (anchor->signal != 0) json_number(&json, (uint64_t)anchor->signal);
  else json_raw(&json, "null");
  json_key_number(&json, ",\"anchorCode\":", (uint64_t)anchor->code);
  json_key_number(&json, ",\"killed\":", (uint64_t)anchor->killed);
  json_key_string(&json, ",\"killMode\":", anchor->killed == 0 ? "none" : anchor->kill_mode);
  json_key_string(&json, ",\"emptiness\":", emptiness);
  json_raw(&json, "}\n");
  json_save(dir, "swept.json", &json);
  os_close(dir);
}

static void save_swept(const struct anchor *anchor, const char *emptiness) {
  for (int at = -1; at < RUNS_MAX; at++)
    if (run_of(anchor, at) != NULL) save_swept_run(anchor, run_of(anchor, at), emptiness);
}

/* True if the cgroups of all its runs are empty. */
static bool boundaries_empty(const struct anchor *anchor) {
  struct boundary boundary;
  bool empty = true;
  for (int at = -1; have_cgroup && at < RUNS_MAX; at++) {
    if (run_of(anchor, at) == NULL || !os_boundary_find(&boundary, runs_cgroup, run_of(anchor, at))) continue;
    empty &= os_boundary_empty(&boundary);
    os_boundary_close(&boundary);
  }
  return empty;
}

static void remove_boundaries(const struct anchor *anchor) {
  struct boundary boundary;
  for (int at = -1; have_cgroup && at < RUNS_MAX; at++)
    if (run_of(anchor, at) != NULL && os_boundary_find(&boundary, runs_cgroup, run_of(anchor, at))) os_boundary_remove(&boundary);
}

static bool any_lost(void) {
  for (size_t i = 0; i < anchor_count; i++)
    if (anchors[i].lost) return true;
  return false;
}

/* Returns true while processes of a dead anchor are left. */
static bool clean_up(uint64_t now) {
  struct boundary boundary;
  /* Counted on the raw list including zombies: a tree that keeps forking always has one entry until it is reaped. */
  if (!any_lost() && os_count_children(is_anchor, NULL) == 0) return false;
  os_raise_priority(true);
  long left = collect_residue(NULL, 0); /* counted before they are killed, for swept.json */
  tree_release(left);
  for (size_t i = 0; i < anchor_count; i++)
    for (int at = -1; anchors[i].lost && have_cgroup && at < RUNS_MAX; at++) {
      if (run_of(&anchors[i], at) == NULL || !os_boundary_find(&boundary, runs_cgroup, run_of(&anchors[i], at))) continue;
      if (os_boundary_kill(&boundary)) anchors[i].kill_mode = "cgroup";
      os_boundary_close(&boundary);
    }
  long killed = tree_kill(collect_residue, NULL);
  add_stuck(killed, now); /* before the next reaping, which removes those that died */
  tree_release(killed);
  /* If several anchors died, it is not known which one a process belonged to; the count is only for swept.json. */
  for (size_t i = 0; i < anchor_count; i++)
    if (anchors[i].lost && left > anchors[i].killed) anchors[i].killed = left;
  reap_children();
  left = os_count_children(is_anchor, NULL);
  for (size_t i = 0; i < anchor_count;) {
    bool empty = left == 0 || (anchors[i].lost && stuck_count > 0 && count_unexpected(anchors[i].lost_at) == 0);
    if (!anchors[i].lost || !empty || !boundaries_empty(&anchors[i])) {
      i++;
      continue;
    }
    remove_boundaries(&anchors[i]);
    save_swept(&anchors[i], "proven");
    anchors[i].lost = false;
    anchors[i].swept = true;
    if (anchors[i].unreaped) i++;
    else forget_anchor(i);
  }
  bool more = left != 0 || any_lost();
  if (!more) os_raise_priority(false);
  return more;
}

/* True if only processes that do not die are left. */
static bool only_stuck(uint64_t now) {
  for (size_t i = 0; i < anchor_count; i++)
    if (!anchors[i].swept && (!anchors[i].lost || anchors[i].lost_at + STUCK_MS > now)) return false;
  return count_unexpected(now) == 0;
}

/* ---- anchors that do not run ---- */

static const struct anchor *watched; /* for `is_root_of_another` */
static int watched_run;

static bool is_root_of_another(os_pid pid, const void *unused) {
  (void)unused;
  struct identity now;
  for (int i = 0; i < RUNS_MAX; i++) {
    const struct heartbeat_run *other = &watched->heartbeat->runs[i];
    if (i != watched_run && other->id[0] != 0 && other->root.pid == pid) return !os_identity(pid, &now) || os_same(&now, &other->root); /* a process that may be the leader is spared */
  }
  return false;
}

static int runs_served(const struct anchor *anchor) {
  int count = 0;
  for (int i = 0; i < RUNS_MAX; i++) count += anchor->heartbeat->runs[i].id[0] != 0 && !anchor->ends[i].done;
  return count;
}

/* Writes silent.json; the next supervisor makes an event of it. */
static void save_silent_file(const struct heartbeat_run *run, uint64_t silent_ms, bool continued) {
  char text[128];
  struct json json = {.data = text, .size = sizeof text};
  int dir = open_run(run->id);
  if (dir < 0) return;
  json_key_number(&json, "{\"at\":", os_wall_ms());
  json_key_number(&json, ",\"silentMs\":", silent_ms);
  json_raw(&json, continued ? ",\"continued\":true}\n" : ",\"continued\":false}\n");
  json_save(dir, "silent.json", &json);
  os_close(dir);
}

/* Writes stop.json. A stop that the anchor had accepted keeps its reason. */
static void save_stop(const struct heartbeat_run *run, const char *reason) {
  char text[4096];
  struct json json = {.data = text, .size = sizeof text};
  bool asked = run->stop_at != 0;
  int dir = open_run(run->id);
  if (dir < 0) return;
  json_key_string(&json, "{\"reason\":", asked ? run->reason : reason);
  json_key_string(&json, ",\"actor\":", asked ? run->actor : "launcher");
  json_key_string(&json, ",\"requestId\":", asked ? run->request : "");
  json_raw(&json, ",\"withoutAnchor\":true}\n");
  json_save(dir, "stop.json", &json); /* failure is ignored: a full disk must not prevent the end */
  os_close(dir);
}

static void min_deadline(uint64_t at, const char *why, uint64_t *due, const char **reason) {
  if (at == 0 || at >= *due) return;
  *due = at;
  *reason = why;
}

/* Returns why the end of this run is overdue; NULL if it is not. */
static const char *overdue(const struct heartbeat_run *run, struct enforced *end, uint64_t now, uint64_t slack) {
  struct identity owner;
  uint64_t due = UINT64_MAX, lost_at = run->owner_lost_at;
  const char *reason = NULL;
  bool gone = run->owned && run->owner.pid != 0 && !(os_identity(run->owner.pid, &owner) && os_same(&owner, &run->owner));
  if (!gone) end->owner_gone_at = 0;
  else if (end->owner_gone_at == 0) end->owner_gone_at = now;
  if (run->owned) lost_at = end->owner_gone_at;
  min_deadline(run->stop_at, "", &due, &reason);
  min_deadline(run->overall_at, "overall-timeout", &due, &reason);
  min_deadline(run->no_output_at, "no-output-timeout", &due, &reason);
  if (run->owner_loss > 0 && lost_at > 0) min_deadline(lost_at + run->owner_loss, "owner-lost", &due, &reason);
  return due != UINT64_MAX && now >= due + OVERDUE_MS + slack ? reason : NULL;
}

static struct member watched_anchor;
static struct boundary watched_boundary;

/* Fills `members` with the processes of one run: all below an anchor that serves only it, else its cgroup, else the
 * tree of its leader. */
static long collect_run(void *unused, int signal) {
  (void)unused;
  const struct heartbeat_run *run = &watched->heartbeat->runs[watched_run];
  if (runs_served(watched) == 1) {
    long count = os_descendants(&watched_anchor, members, tree_max(), NULL, NULL, signal);
    return count < 0 ? 0 : count;
  }
  if (watched_boundary.cgroup >= 0) {
    long count = os_boundary_members(&watched_boundary, members, tree_max());
    for (long i = 0; signal != 0 && i < count; i++)
      if (members[i].state != 'T') os_signal(&members[i], signal);
    return count < 0 ? 0 : count;
  }
  if (!os_open(&run->root, &members[0])) return 0;
  if (tree_dead(&members[0])) {
    os_release(&members[0]);
    return 0;
  }
  if (signal != 0 && members[0].state != 'T') os_signal(&members[0], signal);
  long count = os_descendants(&members[0], members + 1, tree_max() - 1, is_root_of_another, NULL, signal);
  return count < 0 ? 1 : 1 + count;
}

/* Kills the processes of the run, then its anchor, which is last because it is the subreaper of the survivors. An
 * anchor that serves other runs is not killed; if it runs again, it finds this run empty. */
static void kill_run(struct anchor *anchor, int at) {
  bool whole = watched_boundary.cgroup >= 0 && os_boundary_kill(&watched_boundary);
  long count = tree_kill(collect_run, NULL), left = 0;
  tree_release(count);
  if (count > anchor->killed) anchor->killed = count;
  count = collect_run(NULL, 0);
  for (long i = 0; i < count; i++) left += !tree_dead(&members[i]);
  tree_release(count);
  if (left > 0) return; /* the next check tries again */
  if (whole) anchor->kill_mode = "cgroup";
  if (runs_served(anchor) == 1) {
    (void)os_signal(&watched_anchor, OS_KILL); /* only zombies are below it; the launcher reaps them */
    return;
  }
  bool proven = watched_boundary.cgroup >= 0 && os_boundary_empty(&watched_boundary);
  if (watched_boundary.cgroup >= 0 && !proven) return; /* the cgroup has processes that were not listed */
  save_swept_run(anchor, anchor->heartbeat->runs[at].id, proven ? "proven" : "unproven");
  anchor->ends[at].done = true;
}

static void enforce(struct anchor *anchor, int at, const char *reason, uint64_t now) {
  const struct heartbeat_run *run = &anchor->heartbeat->runs[at];
  struct enforced *end = &anchor->ends[at];
  watched = anchor;
  watched_run = at;
  if (!have_cgroup || !os_boundary_find(&watched_boundary, runs_cgroup, run->id)) {
    if (have_cgroup && errno != ENOENT) return; /* the next check tries again */
    watched_boundary.cgroup = -1;
  }
  if (end->kill_at == 0) {
    uint64_t grace = run->grace < GRACE_MOST_MS ? run->grace : GRACE_MOST_MS;
    end->kill_at = now + grace;
    save_stop(run, reason);
    long count = collect_run(NULL, 0);
    for (long i = 0; grace > 0 && i < count; i++)
      if (!tree_dead(&members[i]) && os_signal(&members[i], OS_TERM) == 0) os_signal(&members[i], OS_CONT);
    tree_release(count);
  } else if (now >= end->kill_at) {
    kill_run(anchor, at);
  }
  os_boundary_close(&watched_boundary);
}

static void watch_anchor(struct anchor *anchor, uint64_t now, uint64_t slack) {
  uint64_t silent_ms = now > anchor->heartbeat->beat ? now - anchor->heartbeat->beat : 0;
  if (runs_served(anchor) == 0) slack = 0; /* no supervisor knows this anchor */
  if (silent_ms < SILENT_MS + slack) {
    anchor->continued_at = 0;
    memset(anchor->ends, 0, sizeof anchor->ends); /* it runs, and may serve other runs in the same slots */
    return;
  }
  if (!os_read_process(anchor->pid, &watched_anchor)) return;
  if (tree_dead(&watched_anchor)) { /* a zombie that its tracer has not reaped */
    anchor->unreaped = true;
    lose_anchor(anchor, 0, OS_KILL);
  } else if (anchor->continued_at == 0 || now - anchor->continued_at >= CONTINUE_AGAIN_MS) {
    bool first = anchor->continued_at == 0, sent = os_signal(&watched_anchor, OS_CONT) == 0;
    anchor->continued_at = now;
    for (int i = 0; first && i < RUNS_MAX; i++)
      if (anchor->heartbeat->runs[i].id[0] != 0) save_silent_file(&anchor->heartbeat->runs[i], silent_ms, sent);
  } else if (now - anchor->continued_at >= CONTINUE_MS) {
    for (int i = 0; i < RUNS_MAX; i++) {
      if (anchor->heartbeat->runs[i].id[0] == 0 || anchor->ends[i].done) continue;
      const char *reason = overdue(&anchor->heartbeat->runs[i], &anchor->ends[i], now, slack);
      if (reason != NULL) enforce(anchor, i, reason, now);
    }
  }
  os_release(&watched_anchor);
}

/* A silent anchor is only sent SIGCONT, unless the end of one of its runs is overdue. */
static void watch_anchors(uint64_t now, bool held) {
  static uint64_t next;
  if (now < next) return;
  next = now + WATCH_MS;
  for (size_t i = 0; i < anchor_count; i++)
    if (!anchors[i].lost && !anchors[i].swept && anchors[i].heartbeat != NULL) watch_anchor(&anchors[i], now, held ? HELD_SLACK_MS : 0);
}

static size_t anchors_left(void) {
  size_t count = 0;
  for (size_t i = 0; i < anchor_count; i++) count += !anchors[i].swept;
  return count;
}

/* ---- main loop ---- */

/* Writes launcher.json: the cgroups of this instance, for a supervisor that cleans up after the launcher. It is
 * valid only in the directory it was written in: a copy of that directory has another inode. */
static void save_launcher(void) {
  char text[8 * PATH_SIZE], recorded[PATH_SIZE];
  struct json json = {.data = text, .size = sizeof text};
  struct os_file_info place;
  int dir = os_directory_open(instance_directory);
  if (dir < 0) return;
  if (have_cgroup) os_cgroup_recorded(runs_cgroup, recorded, sizeof recorded);
  json_key_number(&json, "{\"protocol\":", PROTOCOL);
  json_key_number(&json, ",\"pid\":", (uint64_t)me.pid);
  json_key_number(&json, ",\"startTime\":", me.start);
  json_key_number(&json, ",\"uniqueId\":\"", me.unique);
  json_raw(&json, "\",\"cgroup\":");
  if (have_cgroup) json_string(&json, recorded);
  else json_raw(&json, "null");
  json_raw(&json, ",\"cgroupDirectory\":");
  if (have_cgroup) json_string(&json, runs_cgroup);
  else json_raw(&json, "null");
  json_raw(&json, ",\"limitDirectories\":[");
  for (int kind = 0, shown = 0; have_cgroup && kind < LIMITS; kind++) {
    if (!os_limits_place((enum limit)kind, runs_cgroup, recorded, sizeof recorded)) continue;
    json_raw(&json, shown++ == 0 ? "" : ",");
    json_string(&json, recorded);
  }
  json_raw(&json, "]");
  bool known = os_file_info(dir, &place);
  json_key_number(&json, ",\"device\":\"", known ? place.device : 0);
  json_key_number(&json, "\",\"inode\":\"", known ? place.inode : 0);
  json_raw(&json, "\"}\n");
  if (!known || !json_save(dir, "launcher.json", &json)) os_file_remove(dir, "launcher.json"); /* no file is better than an older launcher's */
  os_close(dir);
}

static void announce(void) {
  char text[2048];
  struct json json = {.data = text, .size = sizeof text};
  json_key_number(&json, "{\"ready\":true,\"pid\":", (uint64_t)me.pid);
  json_key_string(&json, ",\"cgroup\":", have_cgroup ? runs_cgroup : "");
  json_key_string(&json, ",\"note\":", note);
  json_raw(&json, "}\n");
  fputs(text, stdout);
  fflush(stdout);
  os_release_caller();
}

static int count_clients(bool holding) {
  int count = 0;
  for (int i = 0; i < CLIENTS_MAX; i++) count += clients[i].fd >= 0 && clients[i].holds == holding;
  return count;
}

static void loop(int listener, int events) {
  _Static_assert(2 + CLIENTS_MAX <= POLL_MAX, "the set fits into one poll");
  uint64_t began = os_now_ms(), pause = 0; /* pause: until the next check of dead anchors */
  bool was_held = false;
  for (;;) {
    struct os_poll p[2 + CLIENTS_MAX];
    struct client *polled[2 + CLIENTS_MAX];
    size_t count = 2;
    bool partial = false;
    p[0] = (struct os_poll){.fd = events, .wants = OS_READ};
    bool full = count_clients(true) + count_clients(false) == CLIENTS_MAX || os_now_ms() < accept_at ||
                os_descriptors_free(DESCRIPTORS_RESERVED) < DESCRIPTORS_RESERVED; /* the next client waits in the backlog */
    p[1] = (struct os_poll){.fd = full ? -1 : listener, .wants = OS_READ};
    for (int i = 0; i < CLIENTS_MAX; i++) {
      if (clients[i].fd < 0) continue;
      partial |= clients[i].partial; /* the bytes stay in the socket, so poll would return at once: check again later */
      p[count] = (struct os_poll){.fd = clients[i].fd, .wants = clients[i].partial ? 0 : OS_READ};
      polled[count++] = &clients[i];
    }
    bool quiet = count_clients(true) > 0 && count_clients(false) == 0;
    int rest = anchor_count > 0 ? WATCH_HELD_MS : -1;
    int wait = pause > 0 ? (int)pause : quiet && !full ? rest : 1000;
    if (accept_at > 0 && (wait < 0 || wait > ACCEPT_RETRY_MS)) wait = ACCEPT_RETRY_MS;
    if (partial && (wait < 0 || wait > PARTIAL_MS)) wait = PARTIAL_MS;
    os_poll(p, count, wait);
    uint64_t now = os_now_ms();
    char actor[64];
    while (os_next_stop_request(events, actor, sizeof actor)) continue; /* TERM and others are ignored while there are anchors */
    for (size_t i = 2; i < count; i++) {
      if (polled[i]->partial && (p[i].ready & OS_GONE) != 0) client_drop(polled[i]); /* the rest will not come */
      else if (p[i].ready != 0 || polled[i]->partial) client_read(polled[i]);
      if (polled[i]->fd >= 0 && !polled[i]->holds && now - polled[i]->since > HELLO_TIMEOUT_MS) client_drop(polled[i]);
    }
    if (p[1].ready != 0) client_accept(listener, now);
    reap_children();
    watch_anchors(now, count_clients(true) > 0);
    if (fresh_loss) pause = 0;
    fresh_loss = false;
    pause = clean_up(now) ? (pause == 0 ? 1 : pause < 500 ? pause * 2 : 1000) : 0;
    bool held = count_clients(true) > 0;
    was_held |= held;
    bool idle = !held && count_clients(false) == 0 && (was_held || now - began > FIRST_HOLD_MS);
    if (idle && anchors_left() == 0 && pause == 0) return;
    if (idle && pause > 0 && only_stuck(now)) {
      for (size_t i = 0; i < anchor_count; i++)
        if (!anchors[i].swept) save_swept(&anchors[i], "unproven");
      return;
    }
  }
}

/* Includes device and inode: a copied state directory has the same instance id, and must never find the original's
 * cgroups. */
static void format_place(const char *instance, char *out, size_t size) {
  struct os_file_info place = {0};
  (void)os_path_info(instance_directory, &place);
  snprintf(out, size, "%.40s-%llx-%llx", instance, (unsigned long long)place.device, (unsigned long long)place.inode);
}

int launch_mode(const char *instance_dir, const char *instance, char *argv, size_t argv_size) {
  title = argv;
  title_size = argv_size;
  char path[PATH_SIZE];
  instance_directory = instance_dir;
  os_detach();
  int events = os_events_open();
  for (int i = 0; i < CLIENTS_MAX; i++) clients[i].fd = -1;
  snprintf(path, sizeof path, "%.900s/runs", instance_dir);
  int listener = -1;
  const char *step = "cannot open a signalfd or become a subreaper";
  bool ok = events >= 0 && os_become_reaper() && os_identity(os_own_pid(), &me);
  if (ok) ok = (step = "the runs directory", os_directory_create(path) || errno == EEXIST);
  snprintf(path, sizeof path, "%.900s/launcher.sock", instance_dir);
  if (ok) ok = (step = "launcher.sock", (listener = os_listen(path, BACKLOG, &(uint64_t){0})) >= 0);
  if (!ok) {
    fprintf(stdout, "{\"ready\":false,\"message\":\"%s: %s\"}\n", step, strerror(errno));
    return 1;
  }
  char place[80];
  format_place(instance, place, sizeof place);
  have_cgroup = os_cgroup_prepare(place, runs_cgroup, sizeof runs_cgroup, note, sizeof note);
  os_harden_self();
  save_launcher();
  announce();
  loop(listener, events);
  if (have_cgroup) os_cgroup_leave(runs_cgroup); /* before the socket, because a successor creates cgroups if there are none */
  os_path_remove(path);
  return 0;
}
