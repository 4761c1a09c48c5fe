/* Internal to darwin-lineage.c and darwin-scan.c. */
#ifndef DARWIN_LINEAGE_H
#define DARWIN_LINEAGE_H

#include "darwin.h"

#define LINEAGES 32

struct entry {
  uint64_t unique, parent;
  pid_t pid; /* 0: not listed yet */
  bool seen, ended;
};

struct lineage {
  bool used, watched;
  int file;
  char path[PATH_SIZE]; /* of the file; empty: none */
  uint64_t first; /* later processes of the run have larger ids */
  struct entry *entries; /* ascending by unique id */
  long count, room, records;
};
extern struct lineage lineages[LINEAGES];
/* What a process is sent when it is added; 0: nothing. */
extern int lineage_signal;

#define EACH(lineage) (struct lineage *lineage = lineages; lineage < lineages + LINEAGES; lineage++) if (lineage->used)

/* NULL: it is in no lineage. */
struct entry *lineage_find(uint64_t unique, struct lineage **of);
/* Adds a process that exists. */
bool lineage_add(struct lineage *lineage, uint64_t unique, uint64_t parent, pid_t pid);
/* A failure is ignored: a full disk must not lose the process here. */
void lineage_record(struct lineage *lineage, uint64_t unique, uint64_t parent);

#endif
