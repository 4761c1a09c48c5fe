/* The run directory: key, socket and anchor.json; created again if another program removes them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "run/end/end.h"
#include "run/run.h"

#define BACKLOG 8
#define CHECK_EVERY_MS 5000

bool listener_open(struct run *run) {
  char path[PATH_SIZE + 8];
  uint64_t identity;
  snprintf(path, sizeof path, "%s/sock", run->directory);
  int fd = os_listen(path, BACKLOG, &identity);
  if (fd < 0) return false;
  if (run->listener >= 0) os_close(run->listener);
  run->listener = fd;
  run->socket_inode = identity;
  return true;
}

static bool set_path(struct run *run) {
  const char *mark = run->warm ? "." : "";
  bool fits = (size_t)snprintf(run->directory, sizeof run->directory, "%s/runs/%s%s", run->instance_directory, mark, run->id) < sizeof run->directory;
  if (!fits) errno = ENAMETOOLONG;
  return fits;
}

static bool create_directory(struct run *run) {
  if (!os_directory_create(run->directory)) return false;
  run->dir = os_directory_open(run->directory);
  bool ok = run->dir >= 0 && os_file_save(run->dir, "key", run->key, strlen(run->key)) && listener_open(run);
  return ok;
}

bool open_directory(struct run *run, const char *instance_dir) {
  snprintf(run->instance_directory, sizeof run->instance_directory, "%s", instance_dir);
  return set_path(run) && create_directory(run);
}

bool name_directory(struct run *run) {
  char warm[PATH_SIZE];
  memcpy(warm, run->directory, sizeof warm);
  run->warm = false;
  if (!set_path(run)) return false;
  if (os_directory_rename(warm, run->directory)) return true;
  if (errno != ENOENT) return false;
  os_close(run->dir);
  return create_directory(run);
}

void remove_directory(struct run *run) {
  static const char *const files[] = {"sock", "key", "stop.json", "anchor.json", ".anchor.json.new"};
  int error = errno;
  for (size_t i = 0; run->dir >= 0 && i < sizeof files / sizeof *files; i++) os_file_remove(run->dir, files[i]);
  os_directory_remove(run->directory);
  errno = error;
}

static void json_identity(struct json *json, const char *key, const struct identity *id) {
  json_raw(json, key);
  json_key_number(json, "{\"pid\":", (uint64_t)id->pid);
  json_key_number(json, ",\"startTime\":", id->start);
  json_key_number(json, ",\"uniqueId\":\"", id->unique);
  json_raw(json, "\"}");
}

bool save_anchor_file(struct run *run) {
  char text[4096 + 6 * SCOPE_SIZE]; /* an escaped character takes six bytes */
  struct json json = {.data = text, .size = sizeof text};
  json_key_number(&json, "{\"protocol\":", PROTOCOL);
  json_key_string(&json, ",\"runId\":", run->id);
  json_key_string(&json, ",\"instanceId\":", run->instance);
  json_identity(&json, ",\"anchor\":", &run->anchor);
  json_identity(&json, ",\"root\":", &run->child.id);
  json_key_string(&json, ",\"tier\":", tier(run));
  json_key_string(&json, ",\"cgroup\":", run->boundary.path);
  json_key_number(&json, ",\"cgroupInode\":\"", run->boundary.inode);
  json_key_string(&json, "\",\"kind\":", run->policy.service ? "service" : "task");
  json_key_string(&json, ",\"scope\":", run->scope);
  json_raw(&json, "}\n");
  return json_save(run->dir, "anchor.json", &json);
}

bool path_gone(const char *path) {
  struct os_file_info info;
  return !os_path_info(path, &info) && errno == ENOENT;
}

/* Repairs a run directory that was removed or replaced: its content is counted as lost, and the run continues. */
static void repair_directory(struct run *run) {
  char runs[PATH_SIZE + 8];
  struct os_file_info here, there;
  bool same = os_file_info(run->dir, &here) && os_path_info(run->directory, &there) && here.inode == there.inode;
  if (same || path_gone(run->instance_directory)) return;
  snprintf(runs, sizeof runs, "%s/runs", run->instance_directory);
  (void)os_directory_create(runs);
  (void)os_directory_create(run->directory);
  int dir = os_directory_open(run->directory);
  if (dir < 0) return;
  os_close(run->dir);
  run->dir = dir;
  for (int i = 0; i < 2; i++) spool_restart(&run->streams[i].spool, dir);
  os_file_save(run->dir, "key", run->key, strlen(run->key));
  save_anchor_file(run);
  if (run->stop.set) save_stop(run);
  run->leader_saved = false;
  if (run->leader_done) save_leader_file(run);
}

void check_socket_and_directory(struct run *run, uint64_t now) {
  char path[PATH_SIZE + 8];
  run->check_at = now + CHECK_EVERY_MS;
  if (run->warm) {
    if (os_parent() != run->launcher) close_gate(run); /* no process would end the run if this one died */
    return;
  }
  drop_silent_connections(run, now);
  release_abandoned_runs(false);
  if (run->end_sent) return;
  repair_directory(run);
  streams_check(run);
  snprintf(path, sizeof path, "%s/sock", run->directory);
  if (!os_listener_present(path, run->socket_inode)) listener_open(run);
}
