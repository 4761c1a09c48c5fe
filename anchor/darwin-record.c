/* macOS: the file of a lineage: unique ids of the processes of a run, which a launcher or `anchor reap` reads after the
 * anchor has died. A header, then records; the last one of a process counts. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "darwin.h"

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

struct record *record_read(int file, long *count) {
  struct header ours, theirs;
  struct stat st;
  *count = 0;
  if (!fill(&ours) || fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return NULL;
  if (pread(file, &theirs, sizeof theirs, 0) != (ssize_t)sizeof theirs || memcmp(&ours, &theirs, sizeof ours) != 0) return NULL;
  long room = (long)(((uint64_t)st.st_size - sizeof ours) / sizeof(struct record));
  if (room > RECORDS_MOST) room = RECORDS_MOST;
  struct record *records = malloc((size_t)(room > 0 ? room : 1) * sizeof *records);
  if (records == NULL) return NULL;
  ssize_t n = pread(file, records, (size_t)room * sizeof *records, sizeof ours);
  *count = n < 0 ? 0 : n / (long)sizeof *records;
  return records;
}

bool record_append(int file, const struct record *record) { return write(file, record, sizeof *record) == (ssize_t)sizeof *record; }

/* In the order of the old records, so that a process is on the file at any moment: its new place is not behind its old
 * one. */
void record_replace(int file, const struct record *records, long count) {
  size_t size = (size_t)count * sizeof *records;
  if (pwrite(file, records, size, sizeof(struct header)) == (ssize_t)size) (void)!ftruncate(file, (off_t)(sizeof(struct header) + size));
}

static bool has_process(int directory, const char *name, uint64_t unique) {
  long count = 0;
  bool found = false;
  int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct record *records = file < 0 ? NULL : record_read(file, &count);
  for (long i = 0; i < count; i++)
    if (records[i].unique == unique) found = records[i].parent != 0;
  free(records);
  if (file >= 0) close(file);
  return found;
}

bool record_elsewhere(const char *path, uint64_t unique) {
  char directory[PATH_SIZE];
  const char *name = strrchr(path, '/');
  bool found = false;
  if (name == NULL) return false;
  snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
  DIR *entries = opendir(directory);
  for (struct dirent *entry; !found && entries != NULL && (entry = readdir(entries)) != NULL;)
    found = entry->d_name[0] != '.' && strcmp(entry->d_name, name + 1) != 0 && has_process(dirfd(entries), entry->d_name, unique);
  if (entries != NULL) closedir(entries);
  return found;
}
