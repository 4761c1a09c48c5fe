/* macOS: the directories with the files of lineages: one for each instance of this user, like its cgroup on Linux. A launcher
 * finds a file by the run's id, and `anchor reap` by its path and inode. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

#define PREFIX "holdfast-"
#define RUNS "/runs"

static bool prepare_failed; /* also in the anchors of a launcher: it would not find the run of one that died */

bool lineage_directory_failed(void) { return prepare_failed; }

static bool base_directory(char *out, size_t size) {
  size_t length = confstr(_CS_DARWIN_USER_CACHE_DIR, out, size); /* kept while the system runs, and only for this user */
  if (length == 0 || length > size) return false;
  for (length = strlen(out); length > 1 && out[length - 1] == '/';) out[--length] = 0;
  return true;
}

static bool make_own(const char *path) {
  struct stat st;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
  if (lstat(path, &st) != 0) return false;
  errno = EPERM;
  return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

bool os_boundaries_prepare(const char *place, char *runs, size_t size, char *note, size_t note_size) {
  char base[PATH_SIZE / 2] = "", instance[PATH_SIZE];
  note[0] = 0;
  prepare_failed = true;
  bool found = base_directory(base, sizeof base);
  if (found) snprintf(instance, sizeof instance, "%s/" PREFIX "%s", base, place);
  if (found && (size_t)snprintf(runs, size, "%s" RUNS, instance) < size && make_own(instance) && make_own(runs)) prepare_failed = false;
  else snprintf(note, note_size, "directory of lineages in %s: %s", base, strerror(errno));
  return !prepare_failed;
}

void os_boundaries_leave(const char *runs) {
  char instance[PATH_SIZE];
  if (rmdir(runs) != 0) return;
  snprintf(instance, sizeof instance, "%.*s", (int)(strlen(runs) - strlen(RUNS)), runs);
  (void)rmdir(instance);
}

void os_boundary_recorded_path(const char *path, char *out, size_t size) { snprintf(out, size, "%s", path); }

/* ---- files ---- */

bool lineage_path_possible(const char *recorded) {
  char base[PATH_SIZE / 2];
  size_t length = base_directory(base, sizeof base) ? strlen(base) : 0;
  if (length == 0 || strncmp(recorded, base, length) != 0 || strncmp(recorded + length, "/" PREFIX, strlen("/" PREFIX)) != 0) return false;
  return strstr(recorded, RUNS "/") != NULL && strstr(recorded, "/..") == NULL;
}

int lineage_file_open(const char *path) { return open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); }

/* Without a launcher no process would read the file of a run whose anchor has died: the lineage is only in memory. */
int lineage_file_create(const char *path) {
  if (path[0] == 0) return open("/dev/null", O_RDWR | O_CLOEXEC);
  int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 || record_begin(file)) return file;
  close(file);
  unlink(path);
  return -1;
}

/* ---- survey ---- */

static void visit_runs(const char *instance, const char *place, void (*visit)(const struct boundary *, const char *, const char *)) {
  char runs[PATH_SIZE];
  struct boundary boundary;
  snprintf(runs, sizeof runs, "%.1000s" RUNS, instance);
  DIR *entries = opendir(runs);
  for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.' || !os_boundary_find(&boundary, runs, entry->d_name)) continue;
    visit(&boundary, place, entry->d_name);
    os_boundary_close(&boundary);
  }
  if (entries != NULL) closedir(entries);
}

void os_each_boundary(void (*visit)(const struct boundary *boundary, const char *place, const char *run_id)) {
  char base[PATH_SIZE / 2], instance[PATH_SIZE];
  DIR *entries = base_directory(base, sizeof base) ? opendir(base) : NULL;
  for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
    snprintf(instance, sizeof instance, "%s/%.400s", base, entry->d_name);
    visit_runs(instance, entry->d_name + strlen(PREFIX), visit);
  }
  if (entries != NULL) closedir(entries);
}
