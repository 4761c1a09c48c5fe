/* Shared by the Linux files only. */
#ifndef LINUX_H
#define LINUX_H

#include <stdbool.h>
#include <stddef.h>

#include "os.h"

/* Bytes read, the text NUL-terminated; -1 when it cannot be opened. */
long slurp(const char *path, char *out, size_t size);
long slurp_at(int dir, const char *path, char *out, size_t size);
/* Into a file that is there, in one piece. */
bool write_at(int dir, const char *name, const char *text);
bool write_in(const char *dir, const char *name, const char *text);
bool join(char *out, size_t size, const char *a, const char *b);
/* Removes everything empty below it; the kernel keeps the rest. */
void remove_tree(int dir);
/* Where our own cgroup is mounted: the one whose controllers we may hand out. */
bool cgroup_own(char *out, size_t size);
/* Where a recorded cgroup is mounted. */
bool cgroup_directory(const char *recorded, char *out, size_t size);
bool still_alive(int handle);
/* Ours as they are now; how many. Kept until the next walk. */
int walk_ancestors(const pid_t **out);
/* Numbers in a text; how many. Kept until the next list, of children too. */
long listed_pids(const char *text, const pid_t **out);
/* Limits and priority that we were started with, for whom we start. */
void as_we_were_started(void);
/* What its number says now is about the same process as before. */
bool still_itself(const struct member *member);

/* limits.c: the calling process goes where our run's limits are set. */
bool limits_join(void);
/* The v1 directories of a recorded boundary, if there are any. */
void limits_remove(const char *recorded);

#endif
