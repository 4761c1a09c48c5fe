/* The connections of an anchor, and the requests that supervisors and callers send over them. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "run/run.h"

/* connections.c */
void connections_accept(struct run *run, uint64_t now);
void connections_add_owner(struct run *run, int fd);
void record_owner(struct run *run, int fd);
void connection_flush(struct connection *connection);
/* Sends what the messages of one turn have left, to all connections. */
void connections_flush(struct run *run);
void connection_drop(struct run *run, struct connection *connection);
void connections_finish(struct run *run, uint64_t patience_ms);
struct out connection_out(struct connection *connection, uint8_t type);
void connection_send(struct run *run, struct connection *connection, struct out *out);
void send_to_all(struct run *run, uint8_t type, void (*fill)(struct run *, struct out *, const void *), const void *data);
void send_failed(struct run *run, struct connection *connection, enum step step, int error);
void send_welcome(struct run *run, struct connection *connection);
void refuse(struct run *run, struct connection *connection, const char *code, const char *message);
void out_stop(struct run *run, struct out *out, const void *unused);
bool backlogged(const struct connection *connection);
void drop_silent_connections(struct run *run, uint64_t now);
const char *tier(struct run *run);

/* dispatch.c */
/* Reads and handles requests. False: the connection has ended or violated the protocol. */
bool connection_read(struct run *run, struct connection *connection);

/* caller.c */
/* Makes the connection that of the caller; the run is stopped when it ends. */
void handle_caller(struct run *run, struct connection *connection);
/* The caller has disconnected: its run is stopped, unless it became a service. */
void caller_lost(struct run *run);
/* True for requests that a caller may send besides those of every connection. */
bool is_callers_request(uint8_t type);

/* adopt.c, signal-members.c, list-members.c */
void handle_adopt(struct run *run, struct connection *connection, const struct frame *frame);
void handle_signal(struct run *run, struct connection *connection, const struct frame *frame);
void handle_members(struct run *run, struct connection *connection, const struct frame *frame);

#endif
