/* Internal to os/linux. */
#ifndef LINUX_H
#define LINUX_H

#include <dirent.h>

#include "os/posix/posix.h"

#define CGROUP2_MAGIC 0x63677270
#define CGROUP_DEPTH 16 /* nested cgroups are searched so deep */

/* Features that the test-only variable HOLDFAST_ANCHOR_WEAKEN disables. */
struct test_disable {
  bool cgroup, inode, pidfd, children, controllers;
};
extern struct test_disable test_disable;

/* kernel-files.c */
/* Read a file and return its length, the text NUL-terminated; -1 if it cannot be opened. */
long read_file(const char *path, char *out, size_t size);
long read_file_at(int dir, const char *path, char *out, size_t size);
/* Writes to an existing file with one write. */
bool write_at(int dir, const char *name, const char *text);
bool write_in(const char *dir, const char *name, const char *text);
/* NULL: it is gone, or there are no free descriptors. */
DIR *open_entries(int dir);

/* process.c */
/* True if the error concerns resources, not the process. */
bool short_of_descriptors(int error);
/* Notes such an errno for os_lookup_failed. */
void record_lookup_failure(void);
/* /proc/<pid>/stat */
struct stat_line {
  pid_t ppid, pgid, sid;
  int threads;
  uint64_t start, cpu_ms, rss_kb;
  char state;
  char command[COMMAND_SIZE];
};
bool read_stat(pid_t pid, struct stat_line *out);
bool still_alive(int handle);
/* True if the process exists, also one of another user: hidepid does not affect these calls. */
bool exists(pid_t pid, int handle);
/* True if its pid still names the same process. */
bool is_same_process(const struct member *member);
/* Reads our ancestors and returns their number. Valid until the next call. */
int walk_ancestors(const pid_t **out);

/* descendants.c: parses pids and returns their number. Valid until the next list, also of children. */
long listed_pids(const char *text, const pid_t **out);

/* cgroup-mount.c */
/* Joins two parts of a path; false if it is too long. */
bool join(char *out, size_t size, const char *a, const char *b);
/* Removes all empty directories below it. */
void remove_tree(int dir);
/* Finds where cgroup2 is mounted, and which of its directories is the root of the mount. */
bool find_cgroup_root(void);
/* NULL: cgroup2 is not mounted. */
const char *cgroup_root_directory(void);
/* The directory of our own cgroup, whose controllers we may enable. */
bool cgroup_own(char *out, size_t size);
/* The directory of a recorded cgroup; false if it is not below the root of our mount. */
bool cgroup_directory(const char *recorded, char *out, size_t size);
/* The same, if the mount exists and shows our own cgroup; otherwise a missing path proves nothing. */
bool below_cgroup_root(const char *recorded, char *path, size_t size);

/* limits.c */
/* Moves the calling process to the v1 directories of our run. */
bool limits_join(void);
/* Removes the v1 directories of a recorded boundary, if there are any. */
void limits_remove(const char *recorded);
/* The v1 directory of our run for a limit; -1: none. */
int limits_v1(enum limit kind);
/* The limit of our run; 0: none. */
uint64_t limits_asked(enum limit kind);

#endif
