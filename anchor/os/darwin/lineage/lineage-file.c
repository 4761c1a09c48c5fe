/* macOS: the file of a lineage: unique ids of the processes of a run, which a launcher or `anchor reap` reads after the
 * anchor has died. A header, then records; the last one of a process counts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

#define RECORDS_MOST (16l << 20)

/* Unique ids begin anew with each boot. */
struct header {
  char format[24], boot[40];
};

static bool fill(struct header *header) {
  size_t size = sizeof header->boot;
  *header = (struct header){.format = "holdfast-lineage-1"};
  return sysctlbyname("kern.bootsessionuuid", header->boot, &size, NULL, 0) == 0 && header->boot[0] != 0;
}

bool record_begin(int file) {
  struct header header;
  return fill(&header) && write(file, &header, sizeof header) == (ssize_t)sizeof header;
}

bool record_read(int file, struct record **out, long *count) {
  struct header ours, theirs;
  struct stat st;
  *out = NULL;
  *count = 0;
  if (!fill(&ours) || fstat(file, &st) != 0) return false;
  errno = EINVAL;
  if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size < (off_t)sizeof ours) return false;
  if (pread(file, &theirs, sizeof theirs, 0) != (ssize_t)sizeof theirs || memcmp(ours.format, theirs.format, sizeof ours.format) != 0) return false;
  if (memcmp(ours.boot, theirs.boot, sizeof ours.boot) != 0) return true;
  size_t size = (size_t)st.st_size - sizeof ours;
  errno = EFBIG;
  if (size / sizeof **out > RECORDS_MOST) return false;
  struct record *records = malloc(size + sizeof *records);
  if (records == NULL) return false;
  ssize_t n = pread(file, records, size, sizeof ours);
  if (n < 0) free(records);
  if (n < 0) return false;
  *out = records;
  *count = n / (long)sizeof *records;
  return true;
}

/* A part of a record would displace those after it. */
bool record_append(int file, const struct record *record) {
  struct stat st;
  ssize_t n = write(file, record, sizeof *record);
  if (n > 0 && n < (ssize_t)sizeof *record && fstat(file, &st) == 0) (void)!ftruncate(file, st.st_size - n);
  return n == (ssize_t)sizeof *record;
}

/* In the order of the old records, so that a process is on the file at any moment: its new place is not behind its old
 * one. With O_APPEND, pwrite(2) ignores its offset on macOS and Linux. */
void record_replace(int file, const struct record *records, long count) {
  size_t size = (size_t)count * sizeof *records;
  int flags = fcntl(file, F_GETFL);
  if (flags < 0 || fcntl(file, F_SETFL, flags & ~O_APPEND) != 0) return;
  if (pwrite(file, records, size, sizeof(struct header)) == (ssize_t)size) (void)!ftruncate(file, (off_t)(sizeof(struct header) + size));
  (void)fcntl(file, F_SETFL, flags);
}

/* `root` gets the first record of the file if it has the process. */
static bool has_process(int directory, const char *name, uint64_t unique, struct record *root) {
  struct record *records = NULL;
  long count = 0;
  bool found = false;
  int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file >= 0) (void)record_read(file, &records, &count);
  for (long i = 0; i < count; i++)
    if (records[i].unique == unique) found = records[i].parent != 0;
  if (found) *root = records[0];
  free(records);
  if (file >= 0) close(file);
  return found;
}

static bool is_in(const char *directory, const char *except, uint64_t unique, struct record *root) {
  bool found = false;
  DIR *entries = opendir(directory);
  for (struct dirent *entry; !found && entries != NULL && (entry = readdir(entries)) != NULL;)
    found = entry->d_name[0] != '.' && strcmp(entry->d_name, except) != 0 && has_process(dirfd(entries), entry->d_name, unique, root);
  if (entries != NULL) closedir(entries);
  return found;
}

/* Removes the last name of a path and returns it. */
static const char *cut(char *path) {
  char *slash = strrchr(path, '/');
  if (slash == NULL) return "";
  *slash = 0;
  return slash + 1;
}

bool record_elsewhere(const char *path, uint64_t unique) {
  char directory[PATH_SIZE];
  struct record root;
  snprintf(directory, sizeof directory, "%s", path);
  const char *name = cut(directory);
  return name[0] != 0 && is_in(directory, name, unique, &root);
}

bool record_of_other_instance(const char *path, uint64_t unique, struct record *root) {
  char base[PATH_SIZE], runs[PATH_SIZE + 300];
  bool found = false;
  snprintf(base, sizeof base, "%s", path);
  (void)cut(base);
  const char *folder = cut(base), *instance = cut(base);
  DIR *entries = folder[0] == 0 || instance[0] == 0 ? NULL : opendir(base);
  for (struct dirent *entry; !found && entries != NULL && (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, "holdfast-", strlen("holdfast-")) != 0 || strcmp(entry->d_name, instance) == 0) continue;
    snprintf(runs, sizeof runs, "%s/%.255s/%.16s", base, entry->d_name, folder);
    found = is_in(runs, "", unique, root);
  }
  if (entries != NULL) closedir(entries);
  return found;
}
