/* One stream's output on disk: segment files named by the offset of their first byte. */
#ifndef SPOOL_H
#define SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define SPOOL_CUTS 64

struct spool {
  const char *name;     /* "stdout" */
  int dir;              /* the run directory */
  int segment;          /* descriptor of the newest segment, -1 when there is none */
  bool back_pressure;   /* otherwise: keep newest */
  bool last;            /* no more room will come: what cannot be stored is dropped */
  uint64_t bound;       /* bytes kept */
  uint64_t segment_size;
  uint64_t segment_base; /* offset of the newest segment's first byte */
  ino_t segment_inode;
  struct timespec segment_modified; /* by us, the last time */
  uint64_t cuts[SPOOL_CUTS]; /* where a segment was begun before the one before it was full, ascending */
  int cut_count;
  uint64_t start, end;  /* what can be read now */
  uint64_t acked, dropped;
  uint64_t lost_before; /* in segments that are not kept any more */
  uint64_t lost;        /* unacknowledged bytes removed by other programs, at the last check */
  int error;            /* errno of the last failed write, 0 when the last one went through */
};

void spool_open(struct spool *spool, const char *name, int dir, uint64_t bound, bool back_pressure);
/* How many bytes may be appended now without breaking the bound (keep newest: always all). */
size_t spool_room(const struct spool *spool, size_t want);
/* Bytes stored. Less than `length` only under back-pressure, when the file system refuses: `error` says why. */
size_t spool_append(struct spool *spool, const void *data, size_t length);
/* The command has ended: what the kernel still holds, this much, must not wait for a slow reader. */
void spool_drain(struct spool *spool, size_t left);
void spool_ack(struct spool *spool, uint64_t offset);
/*
 * Compares the segments with what was written, and counts missing bytes in `lost`. When the newest segment is damaged, the
 * spool continues in a new one, so that no byte is stored at a wrong offset. True: the segments or `lost` changed.
 */
bool spool_check(struct spool *spool);
/* The files are gone: forget them, count them, go on in `dir`. */
void spool_restart(struct spool *spool, int dir);
void spool_close(struct spool *spool);

#endif
