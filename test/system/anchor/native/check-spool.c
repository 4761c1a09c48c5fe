/* Compares the spool with a model in memory, with random appends, acks and limits, and in every other round with
 * segments that another program truncates, extends or removes: check-spool DIRECTORY SEED ROUNDS. */
#include "run/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* The byte of the stream at an offset. */
static uint8_t byte_at(uint64_t offset) { return (uint8_t)(offset * 31 + (offset >> 8)); }

static void fail(const char *what, uint64_t offset) {
  fprintf(stderr, "check-spool: %s at %llu\n", what, (unsigned long long)offset);
  exit(1);
}

/* Damages a random segment; the next append must be stored as usual. */
static void damage(const struct spool *spool, const char *directory) {
  DIR *entries = opendir(directory);
  if (entries == NULL) fail("no directory", 0);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, "stdout.", 7) != 0 || next_random() % 4 != 0) continue;
    uint64_t base = strtoull(entry->d_name + 7, NULL, 10);
    bool newest = base == spool->segment_base;
    uint64_t written = newest ? spool->end - base : 0;
    int fd = openat(spool->dir, entry->d_name, O_WRONLY);
    if (fd < 0) fail("a segment cannot be opened", base);
    off_t length = lseek(fd, 0, SEEK_END);
    switch (next_random() % 3) {
      case 0:
        if (ftruncate(fd, length == 0 ? 0 : (off_t)(next_random() % (uint64_t)length)) != 0) fail("no truncation", base);
        break;
      case 1: /* noticed only for the newest segment, and if its modification time has changed, which has ticks */
        usleep(20000);
        if (newest && ftruncate(fd, 0) != 0) fail("no truncation", base);
        if (newest && ftruncate(fd, (off_t)(written * (next_random() % 3) / 2 + next_random() % 3 * 1000)) != 0) fail("no extension", base);
        break;
      default: unlinkat(spool->dir, entry->d_name, 0);
    }
    close(fd);
    break;
  }
  closedir(entries);
}

/* Reads every segment on disk and compares it with what was written. Returns the bytes kept. */
static uint64_t check(const struct spool *spool, const char *directory) {
  DIR *entries = opendir(directory);
  uint64_t kept = 0;
  if (entries == NULL) fail("no directory", 0);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, "stdout.", 7) != 0) continue;
    uint64_t at = strtoull(entry->d_name + 7, NULL, 10);
    if (at < spool->start || at > spool->end) fail("a segment outside the range", at);
    int fd = openat(spool->dir, entry->d_name, O_RDONLY);
    uint8_t bytes[4096];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
      for (ssize_t i = 0; i < n; i++, at++, kept++)
        if (bytes[i] != byte_at(at)) fail("a wrong byte", at);
    close(fd);
  }
  closedir(entries);
  return kept;
}

static void remove_all(int dir, const char *directory) {
  DIR *entries = opendir(directory);
  if (entries == NULL) fail("no directory", 0);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (strncmp(entry->d_name, "stdout.", 7) == 0) unlinkat(dir, entry->d_name, 0);
  closedir(entries);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
  int dir = open(argv[1], O_RDONLY | O_DIRECTORY);
  if (dir < 0) return 2;
  for (unsigned long round = strtoul(argv[3], NULL, 10); round > 0; round--) {
    struct spool spool;
    uint64_t bound = 4096 + next_random() % 100000;
    bool wait = next_random() % 2, damaged = round % 2;
    spool_open(&spool, "stdout", dir, bound, wait);
    for (int step = 0; step < 60; step++) {
      static uint8_t data[20000];
      size_t want = spool_room(&spool, next_random() % sizeof data);
      for (size_t i = 0; i < want; i++) data[i] = byte_at(spool.end + i);
      if (damaged && next_random() % 4 == 0) {
        damage(&spool, argv[1]);
        (void)spool_check(&spool);
      }
      if (spool_append(&spool, data, want) != want) fail("a short append", spool.end);
      if (wait && spool.end - spool.acked > spool.bound) fail("the bound was passed", spool.end);
      if (wait && spool.start > spool.acked) fail("bytes were freed that nobody acknowledged", spool.acked);
      if (!wait && spool.end - spool.start > spool.bound) fail("more was kept than the bound", spool.end);
      if (!wait && spool.dropped != spool.start) fail("a dropped byte was not counted", spool.start);
      if (!wait && !damaged && spool.end > spool.bound && spool.end - spool.start < spool.bound - spool.segment_size) fail("too much was dropped", spool.start);
      if (next_random() % 3 == 0) spool_ack(&spool, spool.acked + next_random() % (spool.end - spool.acked + 10));
      (void)spool_check(&spool);
      uint64_t kept = check(&spool, argv[1]);
      if (!damaged && kept != spool.end - spool.start) fail("the range on disk is not the range told", spool.start);
      if (!damaged && spool.lost != 0) fail("something is said to be lost", spool.lost);
      if (damaged && !wait && kept + (spool.lost - spool.lost_before) != spool.end - spool.start) fail("what is missing is not what is said to be lost", spool.lost);
    }
    spool_close(&spool);
    remove_all(dir, argv[1]);
  }
  close(dir);
  puts("ok");
  return 0;
}
