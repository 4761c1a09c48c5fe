/* The connection to the anchor of the run: docs/reference/anchor-protocol.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"

#define OUT_SIZE (192u * 1024) /* a piece of input and some small frames */
#define IN_SIZE (FRAME_MAX + 64u)
#define KEY_MAX 79

static int connect_anchor(const char *directory) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/sock", directory);
  if (n <= 0 || n >= (int)sizeof address.sun_path) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0) return fd;
  close(fd);
  return -1;
}

bool link_open(struct link *link, const char *directory, const char *run_id) {
  char path[CLIENT_PATH + 8], key[KEY_MAX + 2];
  snprintf(path, sizeof path, "%s/key", directory);
  *link = (struct link){.fd = -1, .in = malloc(IN_SIZE), .out = malloc(OUT_SIZE)};
  if (link->in == NULL || link->out == NULL || read_own_file(path, key, sizeof key) <= 0) return false;
  link->fd = connect_anchor(directory);
  if (link->fd < 0) return false;
  struct out out = link_out(link, F_CALLER);
  out_number(&out, T_PROTOCOL, PROTOCOL);
  out_text(&out, T_RUN_ID, run_id);
  out_text(&out, T_KEY, key);
  link_send(link, &out);
  return true;
}

void link_close(struct link *link) {
  if (link->fd >= 0) close(link->fd);
  link->fd = -1;
}

bool link_backlogged(const struct link *link) { return link->out_used > link->out_sent; }

struct out link_out(struct link *link, uint8_t type) {
  struct out out = {.data = link->out, .size = OUT_SIZE, .used = link->out_used};
  out_begin(&out, type);
  return out;
}

/* Drops a frame that does not fit into the buffer. A frame that must arrive is sent only if the link has no backlog. */
void link_send(struct link *link, struct out *out) {
  if (!out_end(out)) return;
  link->out_used = out->used;
  link_flush(link);
}

void link_flush(struct link *link) {
  while (link->fd >= 0 && link_backlogged(link)) {
    ssize_t n = write(link->fd, link->out + link->out_sent, link->out_used - link->out_sent);
    if (n > 0) link->out_sent += (size_t)n;
    else if (n < 0 && errno == EINTR) continue;
    else if (n < 0 && errno == EAGAIN) return;
    else break; /* reading finds the end of the connection */
  }
  link->out_used = link->out_sent = 0;
}

bool link_read(struct link *link, void (*handle)(void *context, const struct frame *frame), void *context) {
  ssize_t n = read(link->fd, link->in + link->in_used, IN_SIZE - link->in_used);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  link->in_used += (size_t)n;
  size_t at = 0;
  for (;;) {
    struct frame frame;
    long taken = frame_take(link->in + at, link->in_used - at, FRAME_MAX, &frame);
    if (taken < 0 || (taken > 0 && !frame_well_formed(&frame))) return false;
    if (taken == 0) break;
    handle(context, &frame);
    at += (size_t)taken;
  }
  link->in_used -= at;
  memmove(link->in, link->in + at, link->in_used);
  return true;
}
