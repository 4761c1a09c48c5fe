/* The table that the parts of the shim share, and that kernel.c writes. It has the process that forked each process, as
 * macOS' kernel does; Linux forgets that when the parent ends. */
#ifndef DARWIN_SHIM_H
#define DARWIN_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BOOT_SIZE 40

struct slot {
  uint64_t unique, parent;
  uint64_t ended; /* its first thread has */
};

struct table {
  char boot[BOOT_SIZE];
  uint64_t slots;
  struct slot slot[];
};

/* The paths of the table and of the socket of this pid namespace. */
void table_path(char *out, size_t size);
void socket_path(char *out, size_t size);

/* The request: a pid whose forks are sent as messages from now on, or this, which is answered when all forks until now
 * are in the table. */
#define SYNC 0

/* In the anchor. NULL: there is no kernel.c for this pid namespace. */
const struct table *table_of_kernel(void);
int connect_kernel(void);
bool sync_kernel(void);

struct proc_stat {
  pid_t ppid, pgid;
  char state, command[32];
  uint64_t start; /* in ticks since the boot, for tests that compare it with /proc */
  uint64_t start_ms, user_ns, system_ns, resident;
  int threads;
  uint32_t wait_status; /* of a zombie */
};
bool read_proc_stat(pid_t pid, struct proc_stat *out);

#endif
