/* Other POSIX systems: ports of processes, which are not known, and whether a port is open. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/other/other.h"

void os_ports_forget(void) {}

long os_ports(os_pid pid, uint16_t *out, long max) {
  (void)pid;
  (void)out;
  (void)max;
  return 0;
}

bool os_same_network(os_pid pid) {
  (void)pid;
  return true;
}

/* By a connection, which the listener sees. */
bool os_port_open(uint16_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0) close(fd);
  return connected;
}
