/* Which ports a process listens on, and which processes listen on a port. */
#include "modes/inspect-ports.h"

#include "format/parse-number.h"

#define HOLDERS_SHOWN 512
#define PORTS_SHOWN 64

void json_ports(struct json *json, struct member *member) {
  uint16_t ports[PORTS_SHOWN];
  long count = os_ports(member->id.pid, ports, PORTS_SHOWN);
  if (!os_refresh(member)) count = 0;
  json_raw(json, ",\"ports\":[");
  for (long i = 0; i < count; i++) json_key_number(json, i == 0 ? "" : ",", ports[i]);
  json_raw(json, "]");
}

static uint16_t wanted_port;
static struct json holders;
static int holders_shown;

static void visit_holder(os_pid pid) {
  uint16_t ports[PORTS_SHOWN];
  struct member member;
  bool holds = false;
  long count = holders_shown < HOLDERS_SHOWN && os_same_network(pid) ? os_ports(pid, ports, PORTS_SHOWN) : 0;
  for (long i = 0; i < count; i++) holds |= ports[i] == wanted_port;
  if (!holds || !os_read_process(pid, &member)) return;
  json_raw(&holders, holders_shown++ == 0 ? "{" : ",{");
  json_identity_fields(&holders, &member.id);
  json_key_string(&holders, ",\"command\":", member.command);
  json_raw(&holders, "}");
  os_release(&member);
}

bool inspect_port(const char *line) {
  uint64_t port;
  if (!number_within(line, UINT16_MAX, &port) || port == 0) return false;
  wanted_port = (uint16_t)port;
  holders = evidence_begin();
  holders_shown = 0;
  json_raw(&holders, os_port_open(wanted_port) ? "{\"open\":true,\"holders\":[" : "{\"open\":false,\"holders\":[");
  os_each_process(visit_holder);
  json_raw(&holders, "]}");
  evidence_print(&holders);
  return true;
}
