#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* A bound is kept in whole segments: eight of them lose at most an eighth when the oldest goes. */
#define SEGMENTS 8
#define SEGMENT_MIN 4096
#define BOUND_MAX (UINT64_C(1) << 48) /* what is left at the end can be added to it */
#define SEGMENT_MAX (1u << 20) /* what is acknowledged is freed in these steps: a small disk must see it soon */

void spool_open(struct spool *spool, const char *name, int dir, uint64_t bound, bool back_pressure) {
  if (bound > BOUND_MAX) bound = BOUND_MAX;
  uint64_t size = bound / SEGMENTS;
  *spool = (struct spool){
      .name = name, .dir = dir, .segment = -1, .back_pressure = back_pressure,
      .segment_size = size < SEGMENT_MIN ? SEGMENT_MIN : size > SEGMENT_MAX ? SEGMENT_MAX : size,
  };
  spool->bound = bound < 2 * spool->segment_size ? 2 * spool->segment_size : bound;
}

static void segment_name(const struct spool *spool, uint64_t base, char *out, size_t size) {
  snprintf(out, size, "%s.%020llu", spool->name, (unsigned long long)base);
}

static void remove_oldest(struct spool *spool) {
  char name[48];
  segment_name(spool, spool->start, name, sizeof name);
  unlinkat(spool->dir, name, 0);
  spool->start += spool->segment_size;
}

static bool next_segment(struct spool *spool) {
  char name[48];
  segment_name(spool, spool->end, name, sizeof name);
  int fd = openat(spool->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  spool_close(spool);
  spool->segment = fd;
  spool->segment_base = spool->end;
  return true;
}

size_t spool_room(const struct spool *spool, size_t want) {
  if (!spool->back_pressure) return want;
  uint64_t held = spool->end - spool->acked;
  uint64_t room = held >= spool->bound ? 0 : spool->bound - held;
  return room < want ? (size_t)room : want;
}

/* The file system refuses and we must not wait: forget everything kept, then these bytes. */
static void forget(struct spool *spool, size_t length) {
  while (spool->start < spool->segment_base) {
    spool->dropped += spool->segment_size;
    remove_oldest(spool);
  }
  if (spool->segment >= 0) {
    char name[48];
    segment_name(spool, spool->segment_base, name, sizeof name);
    unlinkat(spool->dir, name, 0);
    spool->dropped += spool->end - spool->segment_base;
  }
  spool_close(spool);
  spool->dropped += length;
  spool->end += length;
  spool->start = spool->segment_base = spool->end;
}

size_t spool_append(struct spool *spool, const void *data, size_t length) {
  size_t done = 0;
  spool->error = 0;
  while (done < length) {
    uint64_t used = spool->end - spool->segment_base;
    if ((spool->segment < 0 || used == spool->segment_size) && !next_segment(spool)) {
      spool->error = errno;
    } else {
      uint64_t room = spool->segment_size - (spool->end - spool->segment_base);
      size_t want = length - done < room ? length - done : (size_t)room;
      ssize_t n = pwrite(spool->segment, (const char *)data + done, want, (off_t)(spool->end - spool->segment_base));
      if (n > 0) {
        done += (size_t)n;
        spool->end += (uint64_t)n;
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else {
        spool->error = n < 0 ? errno : EIO;
      }
    }
    if (spool->error != 0) {
      if (spool->back_pressure && !spool->last) return done;
      if (spool->back_pressure) { /* what nobody has acknowledged is not given up for what comes after it */
        spool->dropped += length - done;
        return length;
      }
      if (spool->start < spool->segment_base) {
        spool->dropped += spool->segment_size; /* make room by forgetting the oldest, and try again */
        remove_oldest(spool);
        spool->error = 0;
        continue;
      }
      int error = spool->error;
      forget(spool, length - done);
      spool->error = error;
      return length;
    }
    while (!spool->back_pressure && spool->end - spool->start > spool->bound && spool->start < spool->segment_base) {
      spool->dropped += spool->segment_size;
      remove_oldest(spool);
    }
  }
  return done;
}

void spool_drain(struct spool *spool, size_t left) {
  spool->last = true;
  spool->bound += spool->back_pressure ? left : 0;
}

void spool_ack(struct spool *spool, uint64_t offset) {
  if (offset > spool->end) offset = spool->end;
  if (offset <= spool->acked) return;
  spool->acked = offset;
  if (!spool->back_pressure) return;
  while (spool->start < spool->segment_base && spool->start + spool->segment_size <= spool->acked) remove_oldest(spool);
}

void spool_restart(struct spool *spool, int dir) {
  spool_close(spool);
  spool->dropped += spool->end - spool->start;
  spool->start = spool->segment_base = spool->end;
  spool->dir = dir;
}

void spool_close(struct spool *spool) {
  if (spool->segment >= 0) close(spool->segment);
  spool->segment = -1;
}
