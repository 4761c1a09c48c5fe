/* Compares the file of a lineage with a model in memory, with random appended records, of which all but the last of a
 * process are dropped now and then: check-lineage-file DIRECTORY SEED ROUNDS. */
#include "os/darwin/darwin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysctl.h>
#include <unistd.h>

#define PROCESSES 50
#define SPARE 200 /* records of processes that have others */

int sysctlbyname(const char *name, void *out, size_t *size, void *in, size_t in_size) {
  const char boot[] = "00000000-0000-0000-0000-000000000001";
  (void)in;
  (void)in_size;
  if (strcmp(name, "kern.bootsessionuuid") != 0 || *size < sizeof boot) return errno = ENOENT, -1;
  memcpy(out, boot, sizeof boot);
  *size = sizeof boot;
  return 0;
}

static uint64_t state, parents[PROCESSES]; /* 0: the process has no record */

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void fail(const char *what, long round) {
  fprintf(stderr, "check-lineage-file: %s in round %ld\n", what, round);
  exit(1);
}

/* Returns the number of records. */
static long check(const char *path, long round) {
  uint64_t found[PROCESSES] = {0};
  struct record *records;
  long count;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || !record_read(file, &records, &count)) fail("it cannot be read", round);
  for (long i = 0; i < count; i++) {
    if (records[i].unique >= PROCESSES) fail("a record is broken", round);
    found[records[i].unique] = records[i].parent;
  }
  if (memcmp(found, parents, sizeof found) != 0) fail("a process has another record", round);
  free(records);
  close(file);
  return count;
}

static void drop_old(int file) {
  struct record records[PROCESSES];
  long count = 0;
  for (uint64_t i = 0; i < PROCESSES; i++)
    if (parents[i] != 0) records[count++] = (struct record){.unique = i, .parent = parents[i]};
  record_replace(file, records, count);
}

int main(int argc, char **argv) {
  char path[PATH_SIZE];
  if (argc != 4) return 2;
  state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
  long rounds = strtol(argv[3], NULL, 10);
  snprintf(path, sizeof path, "%s/lineage", argv[1]);
  int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* as lineage_file_create */
  if (file < 0 || !record_begin(file)) fail("it cannot be created", 0);
  for (long round = 1; round <= rounds; round++) {
    const struct record record = {.unique = next_random() % PROCESSES, .parent = 1 + next_random() % 1000};
    if (!record_append(file, &record)) fail("a record cannot be added", round);
    parents[record.unique] = record.parent;
    if (round % 16 != 0 || check(path, round) <= SPARE) continue;
    drop_old(file);
    if (check(path, round) > PROCESSES) fail("the old records were not dropped", round);
  }
  unlink(path);
  return 0;
}
