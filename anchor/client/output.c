/* Writes one stream of the run from its spool to a descriptor of the caller. That description is shared with other programs,
 * so it is never made non-blocking: a pipe or terminal is opened once more, and anything else is written to in pieces that
 * do not block. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"

#define BUFFER_SIZE (128u * 1024)
#define WRITES_PER_TURN 16 /* signals and the other stream must not wait long */

static const char *name_of(const struct output *output) { return output->stream == 1 ? "stdout" : "stderr"; }

int open_own_description(int fd, int flags) {
  struct stat found;
  char path[32];
  if (fstat(fd, &found) != 0 || (!S_ISFIFO(found.st_mode) && !S_ISCHR(found.st_mode))) return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void output_open(struct output *output, int stream, int dir) {
  struct stat found;
  *output = (struct output){.stream = stream, .fd = open_own_description(stream, O_WRONLY), .dir = dir, .segment = -1};
  output->how = OWN_DESCRIPTION;
  if (output->fd >= 0) return;
  output->fd = stream;
  if (fstat(stream, &found) != 0) return;
  output->how = S_ISREG(found.st_mode) ? REGULAR_FILE : S_ISSOCK(found.st_mode) ? SOCKET : SMALL_PIECES;
}

/* Finds the first segment that begins at or after the read position. False: there is none. */
static bool later_segment(const struct output *output, uint64_t *base) {
  int fd = openat(output->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fd < 0 ? NULL : fdopendir(fd);
  bool found = false;
  if (directory == NULL) {
    if (fd >= 0) close(fd);
    return false;
  }
  size_t prefix = strlen(name_of(output));
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strncmp(entry->d_name, name_of(output), prefix) != 0 || entry->d_name[prefix] != '.') continue;
    const char *digits = entry->d_name + prefix + 1;
    if (strlen(digits) != 20 || strspn(digits, "0123456789") != 20) continue;
    uint64_t at = strtoull(digits, NULL, 10);
    if (at < output->read || (found && at >= *base)) continue;
    *base = at;
    found = true;
  }
  closedir(directory);
  return found;
}

/* Keeps a segment open that was read to its end. The anchor removes it when it is acknowledged, and the system frees its pages
 * when the last descriptor is closed: here, and not in the anchor, which has more work to do. */
static void keep_segment(struct output *output) {
  int *place = &output->kept[output->next_kept];
  output->next_kept = (output->next_kept + 1) % SEGMENTS_KEPT;
  if (*place > 0) close(*place);
  *place = output->segment;
}

static bool open_segment(struct output *output, uint64_t base) {
  char name[32];
  snprintf(name, sizeof name, "%s.%020llu", name_of(output), (unsigned long long)base);
  int fd = openat(output->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  if (output->segment >= 0) keep_segment(output);
  output->segment = fd;
  output->base = base;
  return true;
}

static void lose(struct output *output, uint64_t to) {
  if (to > output->end) to = output->end;
  if (to > output->read)
    notice("%llu bytes of %s are missing: a spool file was truncated or removed", (unsigned long long)(to - output->read), name_of(output));
  output->read = output->written = to;
}

/* Reads the next piece. A segment ends where the next one begins. */
static bool fill(struct output *output) {
  uint64_t later = 0;
  if (output->buffer == NULL && (output->buffer = malloc(BUFFER_SIZE)) == NULL) return false;
  for (int tries = 0; output->read < output->end && tries < 4; tries++) {
    uint64_t left = output->end - output->read;
    ssize_t n = output->segment < 0 ? 0
                                    : pread(output->segment, output->buffer, left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE,
                                            (off_t)(output->read - output->base));
    if (n > 0) {
      output->buffered = (size_t)n;
      output->sent = 0;
      output->read += (uint64_t)n;
      output->searched = 0;
      return true;
    }
    if (n < 0 && errno == EINTR) continue;
    if (open_segment(output, output->read)) continue;
    if (later_segment(output, &later)) lose(output, later);
    else if (output->closed) lose(output, output->end);
    else break;
  }
  output->searched = output->end;
  return false;
}

/* Writes as many bytes as possible without blocking. */
static ssize_t put(const struct output *output, const char *data, size_t length) {
  struct pollfd room = {.fd = output->fd, .events = POLLOUT};
  switch (output->how) {
    case SOCKET: return send(output->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    case SMALL_PIECES:
      if (poll(&room, 1, 0) == 0) return errno = EAGAIN, -1;
      return write(output->fd, data, length < PIPE_BUF ? length : PIPE_BUF);
    default: return write(output->fd, data, length);
  }
}

bool output_wants_room(const struct output *output) {
  if (output->failed) return false;
  return output->sent < output->buffered || (output->read < output->end && output->searched != output->end);
}

bool output_done(const struct output *output) { return output->sent == output->buffered && output->read >= output->end; }

static void fail(struct output *output, int error) {
  output->failed = true;
  output->error = error;
  output->reader_gone = error == EPIPE || error == EIO || error == ECONNRESET || error == ENXIO;
}

/* The rest is dropped after a failed write, so that the run can end. */
bool output_write(struct output *output) {
  uint64_t before = output->written;
  for (int turn = 0; turn < WRITES_PER_TURN && !output->failed; turn++) {
    if (output->sent == output->buffered && !fill(output)) break;
    ssize_t n = put(output, output->buffer + output->sent, output->buffered - output->sent);
    if (n > 0) {
      output->sent += (size_t)n;
      output->written += (uint64_t)n;
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else if (n == 0 || errno != EINTR) {
      fail(output, n == 0 ? EIO : errno);
    }
  }
  if (output->failed) {
    output->sent = output->buffered;
    output->written = output->read = output->end;
  }
  return output->written != before;
}
