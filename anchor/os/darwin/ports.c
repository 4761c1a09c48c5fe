/* macOS: listeners of TCP ports, by the sockets that each process holds. Those of other users are not shown. */
#include <arpa/inet.h>
#include <libproc.h>
#include <stdlib.h>

#include "os/darwin/darwin.h"

#define DESCRIPTORS 4096

void os_ports_forget(void) {}

/* 0 if the descriptor is not a listening TCP socket. */
static uint16_t port_of(pid_t pid, int fd) {
  struct socket_fdinfo info;
  if (proc_pidfdinfo(pid, fd, PROC_PIDFDSOCKETINFO, &info, sizeof info) != (int)sizeof info) return 0;
  if (info.psi.soi_kind != SOCKINFO_TCP || info.psi.soi_proto.pri_tcp.tcpsi_state != TSI_S_LISTEN) return 0;
  return ntohs((uint16_t)info.psi.soi_proto.pri_tcp.tcpsi_ini.insi_lport);
}

static int ascending(const void *a, const void *b) { return *(const uint16_t *)a - *(const uint16_t *)b; }

static bool has(const uint16_t *ports, long count, uint16_t port) {
  for (long i = 0; i < count; i++)
    if (ports[i] == port) return true;
  return false;
}

long os_ports(os_pid pid, uint16_t *out, long max) {
  static struct proc_fdinfo descriptors[DESCRIPTORS];
  int size = proc_pidinfo(pid, PROC_PIDLISTFDS, 0, descriptors, sizeof descriptors);
  long found = size <= 0 ? 0 : size / (long)sizeof *descriptors, count = 0;
  for (long i = 0; i < found && count < max; i++) {
    uint16_t port = descriptors[i].proc_fdtype == PROX_FDTYPE_SOCKET ? port_of(pid, descriptors[i].proc_fd) : 0;
    if (port != 0 && !has(out, count, port)) out[count++] = port;
  }
  qsort(out, (size_t)count, sizeof *out, ascending);
  return count;
}

bool os_same_network(os_pid pid) {
  (void)pid;
  return true;
}

static uint16_t wanted;
static bool wanted_open;

static void visit_listener(os_pid pid) {
  uint16_t ports[64];
  if (!wanted_open) wanted_open = has(ports, os_ports(pid, ports, sizeof ports / sizeof *ports), wanted);
}

bool os_port_open(uint16_t port) {
  wanted = port;
  wanted_open = false;
  (void)os_each_process(visit_listener);
  return wanted_open;
}
