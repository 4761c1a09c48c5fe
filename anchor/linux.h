/* Internal to the linux-*.c files. */
#ifndef LINUX_H
#define LINUX_H

#include "posix.h"

/* Features that the test-only variable HOLDFAST_ANCHOR_WEAKEN disables. */
struct test_disable {
  bool cgroup, inode, pidfd, children, controllers;
};
extern struct test_disable test_disable;

/* Read a file and return its length, the text NUL-terminated; -1 if it cannot be opened. */
long read_file(const char *path, char *out, size_t size);
long read_file_at(int dir, const char *path, char *out, size_t size);
/* Writes to an existing file with one write. */
bool write_at(int dir, const char *name, const char *text);
bool write_in(const char *dir, const char *name, const char *text);
bool join(char *out, size_t size, const char *a, const char *b);
/* Removes all empty directories below it. */
void remove_tree(int dir);
/* The directory of our own cgroup, whose controllers we may enable. */
bool cgroup_own(char *out, size_t size);
/* The directory of a recorded cgroup. */
bool cgroup_directory(const char *recorded, char *out, size_t size);
bool still_alive(int handle);
/* Reads our ancestors and returns their number. Valid until the next call. */
int walk_ancestors(const pid_t **out);
/* Parses pids and returns their number. Valid until the next list, also of children. */
long listed_pids(const char *text, const pid_t **out);
/* True if its pid still names the same process. */
bool is_same_process(const struct member *member);

/* linux-limits.c: moves the calling process to the v1 directories of our run. */
bool limits_join(void);
/* Removes the v1 directories of a recorded boundary, if there are any. */
void limits_remove(const char *recorded);

#endif
