/* Connections of the launcher. It reads only the first bytes of each: HOLD of a supervisor, or START or WARM, which the
 * new anchor reads. */
#include <errno.h>
#include <string.h>

#include "launch/launch.h"
#include "format/frame.h"

#define HELLO_TIMEOUT_MS 10000

static void client_drop(struct client *client) {
  os_close(client->fd);
  client->state = CLIENT_NONE;
}

static void send_message(struct client *client, struct out *out) {
  if (out_end(out) && os_write(client->fd, out->data, out->used) == (long)out->used) return;
  client_drop(client); /* it does not read */
}

static void answer_hold(const struct launcher *launcher, struct client *client) {
  uint8_t memory[2048];
  struct out out = {.data = memory, .size = sizeof memory};
  client->state = CLIENT_HOLDING;
  out_begin(&out, F_LAUNCHER);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_number(&out, T_ANCHOR_PID, (uint64_t)launcher->self.pid);
  out_number(&out, T_ANCHOR_START, launcher->self.start);
  out_number(&out, T_ANCHOR_UNIQUE, launcher->self.unique);
  if (launcher->have_cgroup) out_text(&out, T_CGROUP, launcher->runs_cgroup);
  else out_text(&out, T_TIER_NOTE, launcher->note);
  if (os_starts_warm) out_number(&out, T_WARM, 1);
  send_message(client, &out);
}

void clients_send_lost(struct launcher *launcher, const struct anchor *anchor) {
  uint8_t memory[512];
  for (int i = 0; i < CLIENTS_MAX; i++) {
    if (launcher->clients[i].state != CLIENT_HOLDING) continue;
    struct out out = {.data = memory, .size = sizeof memory};
    out_begin(&out, F_ANCHOR_LOST);
    out_text(&out, T_RUN_ID, anchor->run_id);
    out_number(&out, T_ANCHOR_PID, (uint64_t)anchor->pid);
    if (anchor->signal != 0) out_number(&out, T_SIGNAL, (uint64_t)anchor->signal);
    else out_number(&out, T_CODE, (uint64_t)anchor->code);
    send_message(&launcher->clients[i], &out);
  }
}

static bool is_valid_id(const char *id) {
  if (*id == 0) return false;
  for (; *id != 0; id++)
    if (!((*id >= 'a' && *id <= 'z') || (*id >= '0' && *id <= '9') || *id == '_' || *id == '-')) return false;
  return true;
}

/* Takes the frame HOLD out of the socket. */
static bool take_hold(int fd, uint8_t *head, size_t size) {
  size_t all = LENGTH_SIZE + (size_t)wire_u32(head);
  return all >= FRAME_HEAD && all <= size && os_read(fd, head, all) == (long)all;
}

/* The first bytes show the request; they stay in the socket for the anchor. */
static void client_read(struct launcher *launcher, struct client *client) {
  uint8_t head[FRAME_HEAD + FIELD_HEAD + RUN_ID_MAX];
  const uint8_t *field = head + FRAME_HEAD;
  long n = os_peek(client->fd, head, sizeof head);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0 || client->state == CLIENT_HOLDING) {
    client_drop(client);
    return;
  }
  size_t have = (size_t)n;
  client->state = CLIENT_PARTIAL;
  if (have < FRAME_HEAD) return;
  if (head[4] == F_HOLD) {
    if (take_hold(client->fd, head, sizeof head)) answer_hold(launcher, client);
    else client_drop(client);
    return;
  }
  size_t length = have >= FRAME_HEAD + FIELD_HEAD ? wire_u32(field + 1) : 0;
  bool warm = head[4] == F_WARM && os_starts_warm, starts = warm || head[4] == F_START;
  if (starts && have < FRAME_HEAD + FIELD_HEAD + length && length <= RUN_ID_MAX) return;
  char id[RUN_ID_MAX + 1] = "";
  if (starts && *field == T_RUN_ID && length <= RUN_ID_MAX) memcpy(id, field + FIELD_HEAD, length);
  if (is_valid_id(id)) anchor_start(launcher, client->fd, id, warm);
  client_drop(client); /* the anchor has its own copy */
}

void clients_accept(struct launcher *launcher, int listener, uint64_t now) {
  int fd = os_accept(listener);
  launcher->accept_at = fd < 0 ? now + ACCEPT_RETRY_MS : 0; /* the connection stays in the backlog, so poll would return at once */
  if (fd < 0) return;
  if (!os_peer_trusted(fd)) {
    os_close(fd);
    return;
  }
  for (int i = 0; i < CLIENTS_MAX; i++) {
    if (launcher->clients[i].state != CLIENT_NONE) continue;
    launcher->clients[i] = (struct client){.state = CLIENT_NEW, .fd = fd, .since = now};
    client_read(launcher, &launcher->clients[i]);
    return;
  }
  os_close(fd);
}

void clients_poll(const struct launcher *launcher, struct os_poll set[CLIENTS_MAX]) {
  for (int i = 0; i < CLIENTS_MAX; i++) {
    const struct client *client = &launcher->clients[i];
    /* The bytes of a partial client stay in the socket, so poll would return at once: it is read again later. */
    set[i] = (struct os_poll){.fd = client->state == CLIENT_NONE ? -1 : client->fd, .wants = client->state == CLIENT_PARTIAL ? 0 : OS_READ};
  }
}

void clients_read(struct launcher *launcher, const struct os_poll set[CLIENTS_MAX], uint64_t now) {
  for (int i = 0; i < CLIENTS_MAX; i++) {
    struct client *client = &launcher->clients[i];
    if (client->state == CLIENT_NONE) continue;
    if (client->state == CLIENT_PARTIAL && (set[i].ready & OS_GONE) != 0) client_drop(client); /* the rest will not come */
    else if (set[i].ready != 0 || client->state == CLIENT_PARTIAL) client_read(launcher, client);
    if ((client->state == CLIENT_NEW || client->state == CLIENT_PARTIAL) && now - client->since > HELLO_TIMEOUT_MS) client_drop(client);
  }
}

struct client_count clients_count(const struct launcher *launcher) {
  struct client_count count = {0};
  for (int i = 0; i < CLIENTS_MAX; i++) {
    enum client_state state = launcher->clients[i].state;
    count.holding += state == CLIENT_HOLDING;
    count.pending += state == CLIENT_NEW || state == CLIENT_PARTIAL;
    count.partial += state == CLIENT_PARTIAL;
  }
  return count;
}
