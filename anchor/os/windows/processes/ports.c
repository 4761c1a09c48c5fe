/* Windows: TCP ports that processes listen on. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include "os/windows/windows.h"

#include <iphlpapi.h>
#include <stdlib.h>

#define TRIES 8

/* Tables of both families; NULL: not read, or not readable. */
static void *tables[2];

static void *read_table(ULONG family) {
  ULONG size = 16 * 1024;
  void *table = NULL;
  for (int i = 0; i < TRIES; i++) {
    void *more = realloc(table, size);
    if (more == NULL) break;
    table = more;
    DWORD error = GetExtendedTcpTable(table, &size, FALSE, family, TCP_TABLE_OWNER_PID_LISTENER, 0);
    if (error == NO_ERROR) return table;
    if (error != ERROR_INSUFFICIENT_BUFFER) break;
  }
  free(table);
  return NULL;
}

static void read_tables(void) {
  if (tables[0] == NULL) tables[0] = read_table(AF_INET);
  if (tables[1] == NULL) tables[1] = read_table(AF_INET6);
}

void os_ports_forget(void) {
  for (int i = 0; i < 2; i++) {
    free(tables[i]);
    tables[i] = NULL;
  }
}

/* Calls `visit` for each listener. */
static void each_listener(void (*visit)(DWORD pid, uint16_t port, void *of), void *of) {
  read_tables();
  const MIB_TCPTABLE_OWNER_PID *four = tables[0];
  const MIB_TCP6TABLE_OWNER_PID *six = tables[1];
  for (DWORD i = 0; four != NULL && i < four->dwNumEntries; i++) visit(four->table[i].dwOwningPid, ntohs((u_short)four->table[i].dwLocalPort), of);
  for (DWORD i = 0; six != NULL && i < six->dwNumEntries; i++) visit(six->table[i].dwOwningPid, ntohs((u_short)six->table[i].dwLocalPort), of);
}

struct search {
  DWORD pid;
  uint16_t port, *out;
  long max, count;
};

static void add_port(DWORD pid, uint16_t port, void *of) {
  struct search *search = of;
  if (pid != search->pid) return;
  long at = 0;
  while (at < search->count && search->out[at] < port) at++;
  if ((at < search->count && search->out[at] == port) || search->count == search->max) return;
  for (long i = search->count++; i > at; i--) search->out[i] = search->out[i - 1];
  search->out[at] = port;
}

long os_ports(os_pid pid, uint16_t *out, long max) {
  struct search search = {.pid = (DWORD)pid, .out = out, .max = max};
  each_listener(add_port, &search);
  return search.count;
}

static void match_port(DWORD pid, uint16_t port, void *of) {
  struct search *search = of;
  (void)pid;
  search->count += port == search->port;
}

bool os_port_open(uint16_t port) {
  struct search search = {.port = port};
  each_listener(match_port, &search);
  return search.count > 0;
}

bool os_same_network(os_pid pid) {
  (void)pid;
  return true;
}
