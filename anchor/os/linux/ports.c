/* Linux: listeners of TCP ports. /proc/<pid>/net lists the listening sockets in the network namespace of a process;
 * /proc/<pid>/fd shows which of them it holds. */
#include "os/os.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTENERS_MAX 8192
#define TCP_LISTENING 0x0a

static struct {
  uint64_t inode;
  uint16_t port;
} listeners[LISTENERS_MAX];
static long listener_count;
static uint64_t network; /* the namespace they were read in; 0: none yet */

void os_ports_forget(void) { network = 0; }

static void read_table(pid_t pid, const char *name) {
  char path[48], line[512];
  snprintf(path, sizeof path, "/proc/%d/net/%s", pid, name);
  FILE *table = fopen(path, "re");
  if (table == NULL) return;
  while (listener_count < LISTENERS_MAX && fgets(line, sizeof line, table) != NULL) {
    unsigned port, state;
    unsigned long long inode;
    if (sscanf(line, "%*d: %*[^:]:%x %*s %x %*s %*s %*s %*u %*u %llu", &port, &state, &inode) != 3) continue;
    if (state != TCP_LISTENING) continue;
    listeners[listener_count].inode = inode;
    listeners[listener_count++].port = (uint16_t)port;
  }
  fclose(table);
}

/* 0 if it cannot be read. */
static uint64_t network_of(pid_t pid) {
  char path[48];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
  return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* One table for all processes of a network namespace. */
static bool read_network(pid_t pid) {
  uint64_t theirs = network_of(pid);
  if (theirs == 0 || network == theirs) return theirs != 0;
  network = theirs;
  listener_count = 0;
  read_table(pid, "tcp");
  read_table(pid, "tcp6");
  return true;
}

static long add_port(uint16_t port, uint16_t *out, long count, long max) {
  for (long i = 0; i < count; i++)
    if (out[i] == port) return count;
  if (count < max) out[count++] = port;
  return count;
}

static int ascending(const void *a, const void *b) { return *(const uint16_t *)a - *(const uint16_t *)b; }

long os_ports(pid_t pid, uint16_t *out, long max) {
  char path[32], link[64];
  long count = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  if (!read_network(pid)) return 0;
  DIR *descriptors = listener_count == 0 ? NULL : opendir(path);
  if (descriptors == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
    unsigned long long inode;
    ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, link, sizeof link - 1);
    if (length <= 0) continue;
    link[length] = 0;
    if (sscanf(link, "socket:[%llu]", &inode) != 1) continue;
    for (long i = 0; i < listener_count; i++)
      if (listeners[i].inode == inode) count = add_port(listeners[i].port, out, count, max);
  }
  closedir(descriptors);
  qsort(out, (size_t)count, sizeof *out, ascending);
  return count;
}

bool os_same_network(pid_t pid) { return network_of(pid) == network_of(getpid()); }

bool os_port_open(uint16_t port) {
  if (!read_network(getpid())) return false;
  for (long i = 0; i < listener_count; i++)
    if (listeners[i].port == port) return true;
  return false;
}
