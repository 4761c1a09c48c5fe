/* Forwards stdin to the run, up to the limit that the anchor grants. A stdin that cannot be read, such as a directory, counts
 * as ended. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "client/client.h"

#define PIECE_SIZE (64u * 1024)

void input_open(struct input *input, bool to_end) {
  int own = open_own_description(0, O_RDONLY);
  *input = (struct input){.fd = own >= 0 ? own : 0, .terminal = isatty(0), .to_end = to_end, .ended_at = -1};
}

/* Ends reading. A pipe is closed, so that its writer gets EPIPE. */
void input_close(struct input *input) {
  if (input->fd < 0) return;
  if (input->to_end) {
    input->dropped = true;
    return;
  }
  if (input->fd > 0) close(input->fd);
  int null = input->terminal ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, 0);
    close(null);
  }
  input->fd = -1;
}

/* Reading a terminal from the background would stop this process (SIGTTIN), and the run's output with it. */
bool input_wants(const struct input *input, const struct link *link) {
  if (input->dropped) return input->fd >= 0;
  return input->fd >= 0 && input->sent < input->limit && !link_backlogged(link) && (!input->terminal || in_foreground());
}

void input_forward(struct input *input, struct link *link) {
  static uint8_t piece[PIECE_SIZE];
  uint64_t room = input->dropped ? sizeof piece : input->limit - input->sent;
  ssize_t n = read(input->fd, piece, room < sizeof piece ? (size_t)room : sizeof piece);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0 && input->dropped) return;
  if (n > 0) {
    struct out out = link_out(link, F_WRITE);
    out_number(&out, T_OFFSET, input->sent);
    out_bytes(&out, T_DATA, piece, (size_t)n);
    input->sent += (uint64_t)n;
    link_send(link, &out);
    return;
  }
  if (!input->dropped) {
    struct out out = link_out(link, F_CLOSE_STDIN);
    out_number(&out, T_OFFSET, input->sent);
    link_send(link, &out);
  }
  if (input->fd > 0) close(input->fd);
  input->fd = -1;
  input->ended_at = now_ms();
}
