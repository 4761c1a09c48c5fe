/* `anchor launch`: starts anchors and is the subreaper above them. Each of its children is an anchor or a process of
 * a dead anchor, and the latter are killed. It reads only the first bytes of a connection, and exits when there is
 * neither a supervisor nor an anchor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "json.h"
#include "launch.h"
#include "modes.h"
#include "wire.h"

#define FIRST_HOLD_MS 10000 /* the supervisor that started the launcher died before HOLD */
#define PARTIAL_MS 20
#define FULL_MS 1000        /* until the next check whether a client can be accepted, or has sent nothing for too long */
#define WATCH_HELD_MS 10000
#define CLEAN_MOST_MS 1000

static int listen_at(const char *directory) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if ((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s/launcher.sock", directory) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(address.sun_path);
  if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1024) == 0) return fd;
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

static void json_directory(struct json *json, const struct launcher *launcher, const char *path) {
  if (launcher->have_cgroup) json_string(json, path);
  else json_raw(json, "null");
}

/* Writes launcher.json: the cgroups of this instance, for a supervisor that cleans up after the launcher. It is
 * valid only in the directory it was written in: a copy of that directory has another inode. */
static void save_launcher(const struct launcher *launcher) {
  char text[8 * PATH_SIZE], recorded[PATH_SIZE];
  struct json json = {.data = text, .size = sizeof text};
  struct stat st;
  int dir = open(launcher->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (dir < 0) return;
  if (launcher->have_cgroup) os_cgroup_recorded(launcher->runs_cgroup, recorded, sizeof recorded);
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
  bool known = fstat(dir, &st) == 0;
  json_key_number(&json, ",\"device\":\"", known ? (uint64_t)st.st_dev : 0);
  json_key_number(&json, "\",\"inode\":\"", known ? (uint64_t)st.st_ino : 0);
  json_raw(&json, "\"}\n");
  if (!known || !json_save(dir, "launcher.json", &json)) unlinkat(dir, "launcher.json", 0); /* no file is better than an older launcher's */
  close(dir);
}

static void announce(const struct launcher *launcher) {
  char text[2048];
  struct json json = {.data = text, .size = sizeof text};
  json_key_number(&json, "{\"ready\":true,\"pid\":", (uint64_t)launcher->self.pid);
  json_key_string(&json, ",\"cgroup\":", launcher->have_cgroup ? launcher->runs_cgroup : "");
  json_key_string(&json, ",\"note\":", launcher->note);
  json_raw(&json, "}\n");
  (void)!write(1, text, json.used);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; fd++) (void)dup2(null, fd);
  if (null > 2) close(null);
}

static bool can_accept(const struct launcher *launcher, struct client_count clients) {
  return clients.holding + clients.pending < CLIENTS_MAX && os_now_ms() >= launcher->accept_at &&
         os_descriptors_free(DESCRIPTORS_RESERVED) >= DESCRIPTORS_RESERVED;
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

static void loop(struct launcher *launcher, int listener, int signals) {
  enum { P_SIGNALS, P_LISTENER, P_CLIENTS, P_COUNT = P_CLIENTS + CLIENTS_MAX };
  _Static_assert(P_COUNT <= POLL_MAX, "the set fits into one poll");
  struct pollfd p[P_COUNT];
  struct signalfd_siginfo info;
  uint64_t first_hold_by = os_now_ms() + FIRST_HOLD_MS;
  bool was_held = false;
  for (;;) {
    struct client_count clients = clients_count(launcher);
    bool accepts = can_accept(launcher, clients); /* otherwise the next client waits in the backlog */
    p[P_SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
    p[P_LISTENER] = (struct pollfd){.fd = accepts ? listener : -1, .events = POLLIN};
    clients_poll(launcher, p + P_CLIENTS);
    os_poll(p, P_COUNT, next_wait(launcher, clients, accepts));
    uint64_t now = os_now_ms();
    if (p[P_SIGNALS].revents != 0)
      while (read(signals, &info, sizeof info) > 0) continue; /* TERM and others are ignored while there are anchors */
    clients_read(launcher, p + P_CLIENTS, now);
    if (p[P_LISTENER].revents != 0) clients_accept(launcher, listener, now);
    anchors_reap(launcher);
    anchors_watch(launcher, now, clients_count(launcher).holding > 0);
    launcher->clean_pause = residue_end(launcher, now) ? longer_pause(launcher->clean_pause) : 0;
    clients = clients_count(launcher);
    was_held |= clients.holding > 0;
    if (clients.holding > 0 || clients.pending > 0 || (!was_held && now <= first_hold_by)) continue;
    if (launcher->clean_pause == 0 && anchors_left(launcher) == 0) return;
    if (launcher->clean_pause > 0 && residue_is_stuck(launcher, now)) {
      save_unproven(launcher);
      return;
    }
  }
}

/* Includes device and inode: a copied state directory has the same instance id, and must never find the original's
 * cgroups. */
static void format_place(const char *directory, const char *instance, char *out, size_t size) {
  struct stat st;
  bool known = stat(directory, &st) == 0;
  snprintf(out, size, "%.40s-%llx-%llx", instance, known ? (unsigned long long)st.st_dev : 0, known ? (unsigned long long)st.st_ino : 0);
}

int launch_mode(const char *instance_dir, const char *instance, char *argv, size_t argv_size) {
  struct launcher launcher = {.directory = instance_dir, .title = argv, .title_size = argv_size};
  char path[PATH_SIZE];
  os_close_above(2); /* descriptors of the caller must not stay open */
  (void)setsid();
  int signals = os_open_signal_fd();
  os_default_signals();
  mode_t callers = umask(0077);
  snprintf(path, sizeof path, "%.900s/runs", instance_dir);
  int listener = -1;
  const char *step = "cannot open a signalfd or become a subreaper";
  bool ok = signals >= 0 && os_become_reaper() && os_identity(getpid(), &launcher.self);
  if (ok) ok = (step = "the runs directory", mkdir(path, 0700) == 0 || errno == EEXIST);
  if (ok) ok = (step = "launcher.sock", (listener = listen_at(instance_dir)) >= 0);
  if (!ok) {
    fprintf(stdout, "{\"ready\":false,\"message\":\"%s: %s\"}\n", step, strerror(errno));
    return 1;
  }
  umask(callers); /* the commands' default umask */
  (void)!chdir("/");
  char place[80];
  format_place(instance_dir, instance, place, sizeof place);
  launcher.have_cgroup = os_cgroup_prepare(place, launcher.runs_cgroup, sizeof launcher.runs_cgroup, launcher.note, sizeof launcher.note);
  os_harden_self();
  save_launcher(&launcher);
  announce(&launcher);
  loop(&launcher, listener, signals);
  free(launcher.anchors);
  if (launcher.have_cgroup) os_cgroup_leave(launcher.runs_cgroup); /* before the socket, because a successor creates cgroups if there are none */
  snprintf(path, sizeof path, "%.900s/launcher.sock", instance_dir);
  unlink(path);
  return 0;
}
