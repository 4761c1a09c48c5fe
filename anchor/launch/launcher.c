/* `anchor launch`: starts anchors and is the subreaper above them. Each of its children is an anchor or a process of
 * a dead anchor, and the latter are killed. It reads only the first bytes of a connection, and exits when there is
 * neither a supervisor nor an anchor. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json-write.h"
#include "launch/launch.h"
#include "modes/modes.h"
#include "format/frame.h"

#define BACKLOG 1024
#define DESCRIPTORS_MOST (CLIENTS_MAX + 64) /* more than a launcher ever has open */
#define FIRST_HOLD_MS 10000 /* the supervisor that started the launcher died before HOLD */
#define PARTIAL_MS 20
#define FULL_MS 1000        /* until the next check whether a client can be accepted, or has sent nothing for too long */
#define WATCH_HELD_MS 10000
#define CLEAN_MOST_MS 1000

static void json_directory(struct json *json, const struct launcher *launcher, const char *path) {
  if (launcher->have_cgroup) json_string(json, path);
  else json_raw(json, "null");
}

/* Writes launcher.json: the cgroups of this instance, for a supervisor that cleans up after the launcher. It is
 * valid only in the directory it was written in: a copy of that directory has another inode. */
static void save_launcher(const struct launcher *launcher) {
  char text[8 * PATH_SIZE], recorded[PATH_SIZE];
  struct json json = {.data = text, .size = sizeof text};
  struct os_file_info place;
  int dir = os_directory_open(launcher->directory);
  if (dir < 0) return;
  if (launcher->have_cgroup) os_boundary_recorded_path(launcher->runs_cgroup, recorded, sizeof recorded);
  json_key_number(&json, "{\"protocol\":", PROTOCOL);
  json_key_number(&json, ",\"pid\":", (uint64_t)launcher->self.pid);
  json_key_number(&json, ",\"startTime\":", launcher->self.start);
  json_key_number(&json, ",\"uniqueId\":\"", launcher->self.unique);
  json_raw(&json, "\",\"cgroup\":");
  json_directory(&json, launcher, recorded);
  json_raw(&json, ",\"cgroupDirectory\":");
  json_directory(&json, launcher, launcher->runs_cgroup);
  json_raw(&json, ",\"limitDirectories\":[");
  for (int kind = 0, shown = 0; launcher->have_cgroup && kind < LIMITS; kind++) {
    if (!os_limits_place((enum limit)kind, launcher->runs_cgroup, recorded, sizeof recorded)) continue;
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

static void announce(const struct launcher *launcher) {
  char text[2048];
  struct json json = {.data = text, .size = sizeof text};
  json_key_number(&json, "{\"ready\":true,\"pid\":", (uint64_t)launcher->self.pid);
  json_key_string(&json, ",\"cgroup\":", launcher->have_cgroup ? launcher->runs_cgroup : "");
  json_key_string(&json, ",\"note\":", launcher->note);
  json_raw(&json, "}\n");
  fputs(text, stdout);
  fflush(stdout);
  os_release_caller();
}

/* Counting the free descriptors takes a system call for each, so they are counted only under a low limit. */
static bool has_descriptors(void) {
  return os_descriptor_limit() >= DESCRIPTORS_MOST || os_descriptors_free(DESCRIPTORS_RESERVED) >= DESCRIPTORS_RESERVED;
}

static bool can_accept(const struct launcher *launcher, struct client_count clients) {
  return clients.holding + clients.pending < CLIENTS_MAX && os_now_ms() >= launcher->accept_at && has_descriptors();
}

static int shorter(int wait, int most) { return wait < 0 || wait > most ? most : wait; }

/* How long to wait for events; -1: for ever. */
static int next_wait(const struct launcher *launcher, struct client_count clients, bool accepts) {
  bool quiet = clients.holding > 0 && clients.pending == 0 && accepts;
  int wait = launcher->clean_pause > 0 ? (int)launcher->clean_pause : !quiet ? FULL_MS : launcher->anchor_count > 0 ? WATCH_HELD_MS : -1;
  if (launcher->accept_at > 0) wait = shorter(wait, ACCEPT_RETRY_MS);
  return clients.partial > 0 ? shorter(wait, PARTIAL_MS) : wait;
}

static uint64_t longer_pause(uint64_t pause) {
  if (pause == 0) return 1;
  return pause * 2 < CLEAN_MOST_MS ? pause * 2 : CLEAN_MOST_MS;
}

static void save_unproven(const struct launcher *launcher) {
  for (size_t i = 0; i < launcher->anchor_count; i++)
    if (launcher->anchors[i].state != ANCHOR_SWEPT_ZOMBIE) save_swept(launcher, &launcher->anchors[i], "unproven");
}

static void loop(struct launcher *launcher, int listener, int events) {
  enum { P_EVENTS, P_LISTENER, P_CLIENTS, P_COUNT = P_CLIENTS + CLIENTS_MAX };
  _Static_assert(P_COUNT <= POLL_MAX, "the set fits into one poll");
  struct os_poll p[P_COUNT];
  char actor[64];
  uint64_t first_hold_by = os_now_ms() + FIRST_HOLD_MS;
  bool was_held = false;
  for (;;) {
    struct client_count clients = clients_count(launcher);
    bool accepts = can_accept(launcher, clients); /* otherwise the next client waits in the backlog */
    p[P_EVENTS] = (struct os_poll){.fd = events, .wants = OS_READ};
    p[P_LISTENER] = (struct os_poll){.fd = accepts ? listener : -1, .wants = OS_READ};
    clients_poll(launcher, p + P_CLIENTS);
    os_poll(p, P_COUNT, next_wait(launcher, clients, accepts));
    uint64_t now = os_now_ms();
    while (os_next_stop_request(events, actor, sizeof actor)) continue; /* TERM and others are ignored while there are anchors */
    clients_read(launcher, p + P_CLIENTS, now);
    if (p[P_LISTENER].ready != 0) clients_accept(launcher, listener, now);
    anchors_reap(launcher);
    anchors_watch(launcher, now, clients_count(launcher).holding > 0);
    launcher->clean_pause = orphans_end(launcher, now) ? longer_pause(launcher->clean_pause) : 0;
    clients = clients_count(launcher);
    was_held |= clients.holding > 0;
    if (clients.holding > 0 || clients.pending > 0 || (!was_held && now <= first_hold_by)) continue;
    if (launcher->clean_pause == 0 && anchors_left(launcher) == 0) return;
    if (launcher->clean_pause > 0 && orphans_are_stuck(launcher, now)) {
      save_unproven(launcher);
      return;
    }
  }
}

/* Includes device and inode: a copied state directory has the same instance id, and must never find the original's
 * cgroups. */
static void format_place(const char *directory, const char *instance, char *out, size_t size) {
  struct os_file_info place = {0};
  (void)os_path_info(directory, &place);
  snprintf(out, size, "%.40s-%llx-%llx", instance, (unsigned long long)place.device, (unsigned long long)place.inode);
}

int launch_mode(const char *instance_dir, const char *instance, char *argv, size_t argv_size) {
  struct launcher launcher = {.directory = instance_dir, .title = argv, .title_size = argv_size};
  char runs[PATH_SIZE], socket[PATH_SIZE];
  os_detach();
  int events = os_events_open();
  snprintf(runs, sizeof runs, "%.900s/runs", instance_dir);
  snprintf(socket, sizeof socket, "%.900s/launcher.sock", instance_dir);
  int listener = -1;
  const char *failed = NULL;
  if (events < 0 || !os_become_reaper() || !os_identity(os_own_pid(), &launcher.self)) failed = "cannot receive signals or watch processes";
  else if (!os_directory_create(runs) && errno != EEXIST) failed = "the runs directory";
  else if ((listener = os_listen(socket, BACKLOG, &(uint64_t){0})) < 0) failed = "launcher.sock";
  if (failed != NULL) {
    printf("{\"ready\":false,\"message\":\"%s: %s\"}\n", failed, strerror(errno));
    return 1;
  }
  char place[80];
  format_place(instance_dir, instance, place, sizeof place);
  launcher.have_cgroup = os_boundaries_prepare(place, launcher.runs_cgroup, sizeof launcher.runs_cgroup, launcher.note, sizeof launcher.note);
  os_harden_self();
  save_launcher(&launcher);
  announce(&launcher);
  loop(&launcher, listener, events);
  free(launcher.anchors);
  free(launcher.pids);
  if (launcher.have_cgroup) os_boundaries_leave(launcher.runs_cgroup); /* before the socket, because a successor creates cgroups if there are none */
  os_path_remove(socket);
  return 0;
}
