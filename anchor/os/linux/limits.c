/* Linux: the limits of a run. A limit is set in the run's own cgroup if cgroup v2 has the controller, otherwise in a
 * directory of the run in the v1 hierarchy of the controller. Only processes of the run are in such a directory. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/linux/linux.h"

#define CPU_PERIOD_US 100000
#define LIST_SIZE (64 * 1024)
#define ROOM_TRIES 5
#define ROOM_PAUSE_MS 10

static const struct {
  const char *controller, *file, *v1_file;
} kinds[LIMITS] = {
    [LIMIT_MEMORY] = {"memory", "memory.max", "memory.limit_in_bytes"},
    [LIMIT_PIDS] = {"pids", "pids.max", "pids.max"},
    [LIMIT_CPUS] = {"cpu", "cpu.max", "cpu.cfs_quota_us"},
};

/* The v1 directories of our run, and its limits. */
static int v1[LIMITS] = {-1, -1, -1};
static uint64_t asked[LIMITS];
static bool decided; /* this process has a run, and knows whether it has v1 directories */

/* ---- finding controllers ---- */

static bool has_word(const char *list, const char *word, const char *separators) {
  size_t length = strlen(word);
  for (const char *at = list; *at != 0; at += strcspn(at, separators), at += strspn(at, separators))
    if (strcspn(at, separators) == length && strncmp(at, word, length) == 0) return true;
  return false;
}

static bool has_controller(const char *directory, const char *controller) {
  char path[PATH_SIZE + 32], text[512];
  snprintf(path, sizeof path, "%s/cgroup.controllers", directory);
  return !test_disable.controllers && read_file(path, text, sizeof text) > 0 && has_word(text, controller, " \n");
}

/* Our path for a v1 controller in /proc/self/cgroup. */
static bool own_v1_path(const char *controller, char *out, size_t size) {
  char text[4096], *rest = text;
  if (read_file("/proc/self/cgroup", text, sizeof text) <= 0) return false;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char *list = strchr(line, ':'), *path = list == NULL ? NULL : strchr(list + 1, ':');
    if (path == NULL) continue;
    *path = 0;
    if (has_word(list + 1, controller, ",")) return (size_t)snprintf(out, size, "%s", path + 1) < size;
  }
  return false;
}

/* Our own directory in the v1 hierarchy of a controller; false if there is none or it is not visible from here. */
static bool own_v1(const char *controller, char *out, size_t size) {
  static char info[LIST_SIZE];
  char own[PATH_SIZE], *rest = info;
  if (test_disable.controllers || !own_v1_path(controller, own, sizeof own)) return false;
  if (read_file("/proc/self/mountinfo", info, sizeof info) <= 0) return false;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char root[512], mount[512], options[512];
    char *type = strstr(line, " - cgroup ");
    if (type == NULL || sscanf(type, " - cgroup %*s %511s", options) != 1 || !has_word(options, controller, ",")) continue;
    if (sscanf(line, "%*d %*d %*s %511s %511s", root, mount) != 2) continue;
    size_t prefix = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(own, root, prefix) != 0 || strncmp(own, "/..", 3) == 0) return false;
    return join(out, size, mount, strcmp(own + prefix, "/") == 0 ? "" : own + prefix);
  }
  return false;
}

/* A recorded boundary is …/holdfast-<place>/runs/<runId>; its v1 directories are <own>/holdfast-<place>/<runId>. */
static bool v1_names(int kind, const char *recorded, char *base, char *leaf) {
  char own[PATH_SIZE];
  const char *run = strrchr(recorded, '/'), *runs = run == NULL ? NULL : run - strlen("/runs");
  if (runs == NULL || runs < recorded || strncmp(runs, "/runs", strlen("/runs")) != 0) return false;
  const char *place = runs;
  while (place > recorded && *--place != '/') continue;
  return strncmp(place, "/holdfast-", 10) == 0 && own_v1(kinds[kind].controller, own, sizeof own) &&
         (size_t)snprintf(base, PATH_SIZE, "%s%.*s", own, (int)(runs - place), place) < PATH_SIZE && join(leaf, PATH_SIZE, base, run);
}

/* ---- setting limits ---- */

static void value_of(int kind, uint64_t value, bool old, char *out, size_t size) {
  if (kind == LIMIT_CPUS && value > UINT64_MAX / CPU_PERIOD_US) value = UINT64_MAX / CPU_PERIOD_US;
  if (kind != LIMIT_CPUS) snprintf(out, size, "%llu", (unsigned long long)value);
  else if (old) snprintf(out, size, "%llu", (unsigned long long)value * CPU_PERIOD_US / 1000);
  else snprintf(out, size, "%llu %d", (unsigned long long)value * CPU_PERIOD_US / 1000, CPU_PERIOD_US);
}

static bool up(char *path) {
  char *slash = strrchr(path, '/');
  if (slash != NULL) *slash = 0;
  return slash != NULL;
}

static bool same_program(pid_t pid) {
  char path[32];
  struct stat theirs, ours;
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  return stat(path, &theirs) == 0 && stat("/proc/self/exe", &ours) == 0 && theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

static bool is_service(const char *path) {
  size_t length = strlen(path);
  return length > 8 && strcmp(path + length - 8, ".service") == 0;
}

/* A cgroup that enables controllers for its children may have no processes of its own. Our processes move to `sup`:
 * the supervisor that asks, other processes of this binary, and the first process of a container. If there is any
 * other process, none is moved. Nor is a process moved out of a systemd service's own cgroup, because systemd could
 * not start the service again. */
static bool make_room(const char *here, const char *sup, pid_t supervisor) {
  static char text[LIST_SIZE];
  char path[PATH_SIZE + 32], number[24];
  snprintf(path, sizeof path, "%s/cgroup.procs", here);
  errno = EBUSY;
  if (is_service(here) || read_file(path, text, sizeof text) < 0) return false;
  for (int moving = 0; moving < 2; moving++) {
    char *at = text, *end;
    for (long pid; pid = strtol(at, &end, 10), end != at; at = end) { /* 0: a process of another pid namespace */
      if (moving == 0 && pid != supervisor && pid != 1 && !same_program((pid_t)pid)) return errno = EBUSY, false;
      snprintf(number, sizeof number, "%ld", pid);
      if (moving == 1 && !write_in(sup, "cgroup.procs", number) && errno != ESRCH) return false;
    }
  }
  return true;
}

/* Tries several times, because a process that is forked meanwhile is in the cgroup again, or does not run this
 * binary yet. */
static bool hand_out(const char *here, const char *word, const char *sup, pid_t supervisor) {
  for (int tries = 0; tries < ROOM_TRIES; tries++) {
    if (make_room(here, sup, supervisor) && write_in(here, "cgroup.subtree_control", word)) return true;
    if (errno != EBUSY || is_service(here)) return false;
    (void)poll(NULL, 0, ROOM_PAUSE_MS);
  }
  return errno = EBUSY, false;
}

/* Enables a controller from our own cgroup down to the runs. */
static bool enable(const char *directory, int kind, pid_t supervisor, char *why, size_t size) {
  char chain[3][PATH_SIZE], sup[PATH_SIZE], word[16];
  snprintf(chain[2], PATH_SIZE, "%s", directory);
  bool fits = up(chain[2]);
  for (int i = 1; fits && i >= 0; i--) {
    memcpy(chain[i], chain[i + 1], PATH_SIZE);
    fits = up(chain[i]);
  }
  if (!fits || !join(sup, sizeof sup, chain[1], "/sup") || !has_controller(chain[0], kinds[kind].controller)) return false;
  snprintf(word, sizeof word, "+%s", kinds[kind].controller);
  for (int i = 0; i < 3; i++) {
    if (i < 2 && has_controller(chain[i + 1], kinds[kind].controller)) continue;
    if (write_in(chain[i], "cgroup.subtree_control", word)) continue;
    if (i == 0 && errno == EBUSY && hand_out(chain[0], word, sup, supervisor)) continue;
    const char *busy = is_service(chain[i]) ? "the unit needs DelegateSubgroup=holdfast-gateway (systemd 254)"
                                            : "it contains other processes, so controllers cannot be enabled for its children";
    snprintf(why, size, "%s: %.120s: %s", kinds[kind].controller, chain[i], errno == EBUSY ? busy : strerror(errno));
    return false;
  }
  return true;
}

static bool set_v2(const struct boundary *boundary, int kind, uint64_t value, pid_t supervisor, char *why, size_t size) {
  char text[64], directory[PATH_SIZE];
  value_of(kind, value, false, text, sizeof text);
  if (test_disable.controllers || !cgroup_directory(boundary->path, directory, sizeof directory)) return false;
  if (faccessat(boundary->cgroup, kinds[kind].file, W_OK, 0) != 0 && !enable(directory, kind, supervisor, why, size)) return false;
  if (!write_at(boundary->cgroup, kinds[kind].file, text)) {
    snprintf(why, size, "%s: %s of %.120s: %s", kinds[kind].controller, kinds[kind].file, directory, strerror(errno));
    return false;
  }
  if (kind == LIMIT_MEMORY) {
    write_at(boundary->cgroup, "memory.swap.max", "0"); /* exists only if there is swap */
    write_at(boundary->cgroup, "memory.oom.group", "1");
  }
  return true;
}

static bool set_v1(const struct boundary *boundary, int kind, uint64_t value, char *why, size_t size) {
  char base[PATH_SIZE], leaf[PATH_SIZE], text[64];
  if (!v1_names(kind, boundary->path, base, leaf)) return false;
  bool made = false;
  for (int again = 0; !made && again < 10; again++) { /* another run that ends may remove the empty base */
    made = (mkdir(base, 0755) == 0 || errno == EEXIST) && (mkdir(leaf, 0755) == 0 || errno == EEXIST);
    if (!made && errno != ENOENT) break;
  }
  value_of(kind, value, true, text, sizeof text);
  if (made) v1[kind] = open(leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (v1[kind] < 0 || !write_at(v1[kind], kinds[kind].v1_file, text)) {
    snprintf(why, size, "%s: %.150s: %s", kinds[kind].controller, made ? leaf : base, strerror(errno));
    return false;
  }
  if (kind == LIMIT_MEMORY) write_at(v1[kind], "memory.memsw.limit_in_bytes", text);
  return true;
}

bool os_limits_set(const struct boundary *boundary, const uint64_t limits[LIMITS], pid_t supervisor, char *why, size_t size) {
  decided = true;
  for (int kind = 0; kind < LIMITS; kind++) {
    if (limits[kind] == 0) continue;
    asked[kind] = limits[kind];
    why[0] = 0;
    if (boundary->cgroup < 0) {
      snprintf(why, size, "%s: it needs the run's own cgroup: %.200s", kinds[kind].controller, boundary->note);
      return errno = ENOTSUP, false;
    }
    if (set_v2(boundary, kind, limits[kind], supervisor, why, size) || (why[0] == 0 && set_v1(boundary, kind, limits[kind], why, size)))
      continue;
    if (why[0] == 0)
      snprintf(why, size, "%s: neither the parent cgroup of %.120s nor a cgroup v1 hierarchy has this controller", kinds[kind].controller,
               boundary->path);
    return errno = ENOTSUP, false; /* the reason is in `why`: an errno such as EACCES would look like an error of the command */
  }
  return true;
}

bool os_limited(void) {
  for (int kind = 0; kind < LIMITS; kind++)
    if (asked[kind] > 0) return true;
  return false;
}

bool limits_join(void) {
  for (int kind = 0; kind < LIMITS; kind++)
    if (v1[kind] >= 0 && !write_at(v1[kind], "cgroup.procs", "0")) return false;
  return true;
}

void limits_remove(const char *recorded) {
  char base[PATH_SIZE], leaf[PATH_SIZE];
  for (int kind = 0; kind < LIMITS; kind++) {
    if ((decided && v1[kind] < 0) || !v1_names(kind, recorded, base, leaf)) continue;
    int dir = open(leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0) continue;
    remove_tree(dir);
    close(dir);
    rmdir(leaf);
    rmdir(base); /* if this was the last run */
  }
}

bool os_limits_place(enum limit kind, const char *runs, char *out, size_t size) {
  char recorded[PATH_SIZE], base[PATH_SIZE], leaf[PATH_SIZE];
  if (!join(recorded, sizeof recorded, runs, "/any") || !v1_names(kind, recorded, base, leaf)) return false;
  return (size_t)snprintf(out, size, "%s", base) < size;
}

const char *os_limits_probe(enum limit kind, char *where, size_t size) {
  char own[PATH_SIZE], path[PATH_SIZE + 32];
  if (test_disable.cgroup) return NULL;
  if (cgroup_own(own, sizeof own) && has_controller(own, kinds[kind].controller)) {
    snprintf(where, size, "%s", own);
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", own);
    return access(path, W_OK) == 0 ? "v2" : "v2-refused";
  }
  if (!own_v1(kinds[kind].controller, own, sizeof own)) return NULL;
  snprintf(where, size, "%s", own);
  return access(own, W_OK) == 0 ? "v1" : "v1-refused";
}

const char *os_limit_name(enum limit kind) { return kinds[kind].controller; }

int limits_v1(enum limit kind) { return v1[kind]; }

uint64_t limits_asked(enum limit kind) { return asked[kind]; }
