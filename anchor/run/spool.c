#include "run/spool.h"

#include <errno.h>
#include <stdio.h>

#include "os/os.h"

/* The limit is kept in whole segments: with eight, removing the oldest loses at most an eighth. */
#define SEGMENTS 8
#define SEGMENT_MIN 4096
#define BOUND_MAX (UINT64_C(1) << 48) /* leaves room for the bytes left at the end */
#define SEGMENT_MAX (1u << 20) /* acknowledged bytes are freed in these steps, which must be small for a small disk */

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

/* End of the segment at `base`. */
static uint64_t segment_end(const struct spool *spool, uint64_t base) {
  uint64_t end = base + spool->segment_size < spool->end ? base + spool->segment_size : spool->end;
  for (int i = 0; i < spool->cut_count; i++)
    if (spool->cuts[i] > base && spool->cuts[i] < end) end = spool->cuts[i];
  return end;
}

/* Returns how many bytes of the segment at `base` are on disk. After an error other than ENOENT, all of it is
 * assumed. A removed segment is created again, empty, so that readers can distinguish it from a dropped one. */
static uint64_t segment_length(const struct spool *spool, uint64_t base, uint64_t written) {
  char name[48];
  struct os_file_info now;
  segment_name(spool, base, name, sizeof name);
  if (!os_file_info_at(spool->dir, name, &now)) {
    if (errno != ENOENT) return written;
    (void)os_file_create(spool->dir, name);
    return 0;
  }
  return now.size < written ? now.size : written;
}

/* Counts the bytes of the segment at `base` that are missing and not acknowledged. */
static uint64_t missing_from(const struct spool *spool, uint64_t base) {
  uint64_t end = segment_end(spool, base), from = base + segment_length(spool, base, end - base);
  if (spool->back_pressure && from < spool->acked) from = spool->acked;
  return from < end ? end - from : 0;
}

/* Removes the oldest segment and returns its size. */
static uint64_t remove_oldest(struct spool *spool) {
  char name[48];
  uint64_t end = segment_end(spool, spool->start), length = end - spool->start;
  spool->lost_before += missing_from(spool, spool->start);
  segment_name(spool, spool->start, name, sizeof name);
  os_file_remove(spool->dir, name);
  spool->start = end;
  while (spool->cut_count > 0 && spool->cuts[0] <= spool->start) {
    spool->cut_count--;
    for (int i = 0; i < spool->cut_count; i++) spool->cuts[i] = spool->cuts[i + 1];
  }
  return length;
}

static void remember_segment(struct spool *spool, const struct os_file_info *st) {
  spool->segment_inode = st->inode;
  spool->segment_modified = st->modified;
}

static bool next_segment(struct spool *spool) {
  char name[48];
  struct os_file_info now;
  segment_name(spool, spool->end, name, sizeof name);
  int fd = os_file_append_to(spool->dir, name);
  if (fd < 0) return false;
  if (!os_file_info(fd, &now)) {
    int error = errno;
    os_close(fd);
    errno = error;
    return false;
  }
  spool_close(spool);
  spool->segment = fd;
  spool->segment_base = spool->end;
  remember_segment(spool, &now);
  return true;
}

/* Drops all segments, including the newest. */
static void drop_all(struct spool *spool) {
  while (spool->start < spool->end) spool->dropped += remove_oldest(spool);
  spool_close(spool);
  spool->start = spool->segment_base = spool->end;
  spool->cut_count = 0;
}

/* Ends the newest segment before it is full. */
static void cut(struct spool *spool) {
  spool_close(spool);
  if (spool->end == spool->segment_base) return; /* it is empty: it is created again */
  if (spool->cut_count == SPOOL_CUTS) drop_all(spool);
  else spool->cuts[spool->cut_count++] = spool->end;
}

/* True if the newest segment is as the anchor wrote it. Otherwise detectable foreign bytes are cut off. */
static bool newest_intact(struct spool *spool) {
  char name[48];
  struct os_file_info now;
  uint64_t written = spool->end - spool->segment_base;
  segment_name(spool, spool->segment_base, name, sizeof name);
  if (!os_file_info_at(spool->dir, name, &now)) return errno != ENOENT;
  if (now.inode != spool->segment_inode) { /* another file has its name */
    os_file_remove(spool->dir, name);
    return false;
  }
  uint64_t there = now.size < written ? now.size : written;
  bool ours = now.modified == spool->segment_modified;
  int64_t hole = ours || there == 0 ? (int64_t)there : os_file_hole(spool->segment);
  if (hole >= 0 && (uint64_t)hole < there) { /* truncated and extended again: the start of the zeros is not known */
    (void)os_file_truncate(spool->segment, 0);
    return false;
  }
  if (there < written) return false;
  if (now.size > written) { /* another program appended to it */
    (void)os_file_truncate(spool->segment, written);
    return false;
  }
  spool->segment_modified = now.modified;
  return true;
}

bool spool_check(struct spool *spool) {
  uint64_t before = spool->lost;
  bool intact = spool->segment < 0 || newest_intact(spool);
  if (!intact) {
    cut(spool);
    (void)next_segment(spool); /* shows readers where the stream continues; if it fails, the next write tries again */
  }
  spool->lost = spool->lost_before;
  for (uint64_t base = spool->start; base < spool->end; base = segment_end(spool, base)) spool->lost += missing_from(spool, base);
  return !intact || spool->lost != before;
}

size_t spool_room(const struct spool *spool, size_t want) {
  if (!spool->back_pressure) return want;
  uint64_t held = spool->end - spool->acked;
  uint64_t room = held >= spool->bound ? 0 : spool->bound - held;
  return room < want ? (size_t)room : want;
}

/* The file system refuses and the anchor must not wait: drops everything kept, then these bytes. */
static void drop_unstorable(struct spool *spool, size_t length) {
  char name[48];
  bool begun = spool->segment >= 0 && spool->end == spool->segment_base; /* and it is empty */
  segment_name(spool, spool->end, name, sizeof name);
  drop_all(spool);
  if (begun) os_file_remove(spool->dir, name);
  spool->dropped += length;
  spool->end += length;
  spool->start = spool->segment_base = spool->end;
}

/* Appends to the newest segment. -1: errno is set. 0: another program truncated it meanwhile, and the write is
 * undone. */
static long append(struct spool *spool, const void *data, size_t length) {
  struct os_file_info now;
  uint64_t used = spool->end - spool->segment_base;
  long n = os_file_append(spool->segment, data, length);
  if (n <= 0) {
    if (n == 0) errno = EIO;
    return -1;
  }
  if (!os_file_info(spool->segment, &now)) return n;
  if (now.size == used + (uint64_t)n) {
    remember_segment(spool, &now);
    return n;
  }
  uint64_t before = now.size > (uint64_t)n ? now.size - (uint64_t)n : 0;
  (void)os_file_truncate(spool->segment, before < used ? before : used);
  cut(spool);
  return 0;
}

size_t spool_append(struct spool *spool, const void *data, size_t length) {
  size_t done = 0;
  spool->error = 0;
  if (length > 0 && spool->segment >= 0 && !newest_intact(spool)) (void)spool_check(spool);
  while (done < length) {
    uint64_t used = spool->end - spool->segment_base;
    if ((spool->segment < 0 || used == spool->segment_size) && !next_segment(spool)) {
      spool->error = errno;
    } else {
      uint64_t room = spool->segment_size - (spool->end - spool->segment_base);
      size_t want = length - done < room ? length - done : (size_t)room;
      long n = append(spool, (const char *)data + done, want);
      if (n >= 0) {
        done += (size_t)n;
        spool->end += (uint64_t)n;
      } else if (errno != EINTR) {
        spool->error = errno;
      }
    }
    if (spool->error != 0) {
      if (spool->back_pressure && !spool->last) return done;
      if (spool->back_pressure) { /* unacknowledged bytes are not dropped for later ones */
        spool->dropped += length - done;
        return length;
      }
      if (spool->start < spool->segment_base) {
        spool->dropped += remove_oldest(spool); /* drop the oldest segment and try again */
        spool->error = 0;
        continue;
      }
      int error = spool->error;
      drop_unstorable(spool, length - done);
      spool->error = error;
      return length;
    }
    while (!spool->back_pressure && spool->end - spool->start > spool->bound && spool->start < spool->segment_base)
      spool->dropped += remove_oldest(spool);
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
  while (spool->start < spool->segment_base && segment_end(spool, spool->start) <= spool->acked) (void)remove_oldest(spool);
}

void spool_restart(struct spool *spool, int dir) {
  spool_close(spool);
  spool->dropped += spool->end - spool->start;
  spool->start = spool->segment_base = spool->end;
  spool->cut_count = 0;
  spool->dir = dir;
}

void spool_close(struct spool *spool) {
  if (spool->segment >= 0) os_close(spool->segment);
  spool->segment = -1;
}
