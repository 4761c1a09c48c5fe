/* One stream's output on disk: segment files named by the offset of their first byte. */
#ifndef SPOOL_H
#define SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_CUTS 64

struct spool {
  const char *name;     /* "stdout" */
  int dir;              /* the run directory */
  int segment;          /* descriptor of the newest segment, -1 if there is none */
  bool back_pressure;   /* otherwise keep-newest */
  bool last;            /* no more room will come: bytes that cannot be stored are dropped */
  uint64_t bound;       /* bytes kept */
  uint64_t segment_size;
  uint64_t segment_base; /* offset of the newest segment's first byte */
  uint64_t segment_inode;
  uint64_t segment_modified; /* time of our last write */
  uint64_t cuts[SPOOL_CUTS]; /* starts of segments whose predecessor was not full, ascending */
  int cut_count;
  uint64_t start, end;  /* the readable range */
  uint64_t acked, dropped;
  uint64_t lost_before; /* lost bytes in segments that were removed */
  uint64_t lost;        /* unacknowledged bytes that other programs removed, at the last check */
  int error;            /* errno of the last write, 0 if it succeeded */
};

void spool_open(struct spool *spool, const char *name, int dir, uint64_t bound, bool back_pressure);
/* Number of bytes that may be appended now within the limit (keep-newest: always all). */
size_t spool_room(const struct spool *spool, size_t want);
/* Returns the bytes stored: less than `length` only with back-pressure, if the file system refuses; `error` says
 * why. */
size_t spool_append(struct spool *spool, const void *data, size_t length);
/* The command has ended: the `left` bytes in kernel buffers must not wait for a slow reader. */
void spool_drain(struct spool *spool, size_t left);
void spool_ack(struct spool *spool, uint64_t offset);
/* Compares the segments with what was written, and counts missing bytes in `lost`. If the newest segment is damaged,
 * the spool continues in a new one, so that no byte is stored at a wrong offset. True if the segments or `lost`
 * changed. */
bool spool_check(struct spool *spool);
/* The files are gone: counts them as dropped and continues in `dir`. */
void spool_restart(struct spool *spool, int dir);
void spool_close(struct spool *spool);

#endif
