/* Internal to lineage.c, scan-lineages.c and unrelated-processes.c. */
#ifndef DARWIN_LINEAGE_H
#define DARWIN_LINEAGE_H

#include "os/darwin/darwin.h"

#define LINEAGES 32

struct entry {
  uint64_t unique, parent;
  pid_t pid; /* 0: not listed yet */
  bool seen, ended;
  bool moved; /* to another lineage: it is kept, because its parent is still in this one */
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

/* unrelated-processes.c */
/* The processes of a list that may be of a lineage. */
struct doubt {
  long unread;  /* processes that were gone before they could be read */
  long orphans; /* of `list`, without those that had ended before the list was made */
  const struct listed *list;
  long count;
};
/* `first`: no process of a lineage is older; 0: they have none. The members among the list are in their lineages. Valid until the next call. */
void find_unrelated(const struct listed *list, long count, uint64_t first, struct doubt *out);
/* Forgets the last list: a process that was unrelated then may belong to a lineage that is opened now. */
void forget_unrelated(void);

/* lineage.c */
/* The signal that a process gets when it is added; 0: none. */
extern int lineage_signal;

#define EACH(lineage) (struct lineage *lineage = lineages; lineage < lineages + LINEAGES; lineage++) if (lineage->used)

struct lineage *lineage_of(int file);
/* True if all known processes have ended. A process that cannot be read, or was not listed yet, has not. */
bool lineage_over(const struct lineage *lineage);
/* NULL: it is in no lineage. */
struct entry *lineage_find(uint64_t unique, struct lineage **of);
/* True if it is, or was, in a lineage. */
bool lineage_moved(uint64_t unique);
/* Adds a process that exists. */
bool lineage_add(struct lineage *lineage, uint64_t unique, uint64_t parent, pid_t pid);
/* A failure is ignored: a full disk must not lose the process here. */
void lineage_record(struct lineage *lineage, uint64_t unique, uint64_t parent);

#endif
