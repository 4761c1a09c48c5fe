/* The ports of processes, for `anchor inspect`. */
#ifndef INSPECT_PORTS_H
#define INSPECT_PORTS_H

#include "modes/process-json.h"

/* Adds the ports that a process listens on. Read by pid: valid if the pid still names the same process afterwards. */
void json_ports(struct json *json, struct member *member);
/* The query `port <number>`: prints the processes that listen on it. False if this is no port. */
bool inspect_port(const char *number);

#endif
