/* The TCP ports that processes listen on. */
#ifndef OS_PORTS_H
#define OS_PORTS_H

#include "os/interface/process.h"

/* Lists the TCP ports it listens on in its network namespace, ascending; none if its descriptors cannot be read. */
long os_ports(os_pid pid, uint16_t *out, long max);
/* True if it is in our network namespace. */
bool os_same_network(os_pid pid);
/* True if a process listens on the port in our network namespace. */
bool os_port_open(uint16_t port);
/* Drops the cached list of sockets. */
void os_ports_forget(void);

#endif
