/* POSIX: descriptors, polling and local sockets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "os/posix/posix.h"

#define RETRY_MS 20 /* length of a wait when poll(2) fails */

long os_read(int fd, void *data, size_t size) {
  ssize_t n;
  while ((n = read(fd, data, size)) < 0 && errno == EINTR) continue;
  return (long)n;
}

long os_peek(int fd, void *data, size_t size) {
  ssize_t n;
  while ((n = recv(fd, data, size, MSG_PEEK | MSG_DONTWAIT)) < 0 && errno == EINTR) continue;
  return (long)n;
}

/* SIGPIPE is ignored: os_events_open. */
long os_write(int fd, const void *data, size_t size) {
  ssize_t n;
  while ((n = write(fd, data, size)) < 0 && errno == EINTR) continue;
  return (long)n;
}

size_t os_readable(int fd) {
  int left = 0;
  (void)ioctl(fd, FIONREAD, &left);
  return left > 0 ? (size_t)left : 0;
}

/* Fails if the pipes of this user hold too much, or for a terminal. */
void os_pipe_grow(int fd, size_t size) {
#ifdef F_SETPIPE_SZ
  (void)fcntl(fd, F_SETPIPE_SZ, (int)size);
#else
  (void)fd;
  (void)size;
#endif
}

void os_close(int fd) { close(fd); }

long os_read_input(void *data, size_t size) { return os_read(0, data, size); }

bool posix_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

#ifdef __APPLE__
static bool close_on_exec(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; }

bool posix_pipe(int ends[2]) { return pipe(ends) == 0 && close_on_exec(ends[0]) && close_on_exec(ends[1]); }
#else
bool posix_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0; }
#endif

/* ---- polling ---- */

/* Without another event, POLLHUP is requested: macOS reports nothing for a descriptor without events. Other systems report
 * hang-ups in any case. */
static short events_of(short wants) {
  const int events = (wants & OS_READ ? POLLIN : 0) | (wants & OS_WRITE ? POLLOUT : 0) | (wants & OS_PRIORITY ? POLLPRI : 0);
  return (short)(events == 0 ? POLLHUP : events);
}

static short ready_of(short events) {
  return (short)((events & POLLIN ? OS_READ : 0) | (events & POLLOUT ? OS_WRITE : 0) | (events & POLLPRI ? OS_PRIORITY : 0) |
                 (events & (POLLHUP | POLLERR | POLLNVAL) ? OS_GONE : 0));
}

static void pause_ms(int ms) {
  struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ms * 1000000};
  (void)nanosleep(&time, NULL);
}

/* The set of poll(2) has no entries whose descriptor is -1, because the kernel refuses one that is larger than
 * RLIMIT_NOFILE. */
void os_poll(struct os_poll *set, size_t count, int timeout_ms) {
  static struct pollfd open[POLL_MAX];
  static size_t place[POLL_MAX];
  nfds_t used = 0;
  for (size_t i = 0; i < count; i++) {
    set[i].ready = 0;
    if (set[i].fd < 0 || used == POLL_MAX) continue;
    open[used] = (struct pollfd){.fd = set[i].fd, .events = events_of(set[i].wants)};
    place[used++] = i;
  }
  int ready = poll(open, used, timeout_ms);
  if (ready < 0 && errno != EINTR) { /* EINVAL: the limit is below the number of open descriptors. ENOMEM: temporary */
    for (nfds_t i = 0; i < used; i++)
      if (poll(&open[i], 1, 0) < 0) open[i].revents = 0;
    pause_ms(timeout_ms >= 0 && timeout_ms < RETRY_MS ? timeout_ms : RETRY_MS);
    ready = 1;
  }
  for (nfds_t i = 0; ready > 0 && i < used; i++) set[place[i]].ready = ready_of(open[i].revents);
}

long os_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur > INT32_MAX ? INT32_MAX : (long)limit.rlim_cur;
}

long os_descriptors_free(long most) {
  long limit = os_descriptor_limit(), count = 0;
  for (long fd = 0; fd < limit && count < most; fd++) count += fcntl((int)fd, F_GETFD) < 0 && errno == EBADF;
  return count;
}

/* ---- sockets ---- */

static int open_socket(void) {
#ifdef __APPLE__
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd >= 0 && close_on_exec(fd) && posix_nonblocking(fd)) return fd;
  if (fd >= 0) close(fd);
  return -1;
#else
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#endif
}

int os_listen(const char *path, int backlog, uint64_t *identity) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if ((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = open_socket();
  struct stat st;
  mode_t old = umask(0177);
  bool ok = fd >= 0 && (unlink(path), bind(fd, (struct sockaddr *)&address, sizeof address) == 0) && listen(fd, backlog) == 0 &&
            stat(path, &st) == 0;
  int error = errno;
  umask(old);
  if (ok) *identity = (uint64_t)st.st_ino;
  if (!ok && fd >= 0) close(fd);
  errno = error;
  return ok ? fd : -1;
}

bool os_listener_present(const char *path, uint64_t identity) {
  struct stat st;
  return stat(path, &st) == 0 && (uint64_t)st.st_ino == identity;
}

int os_accept(int listener) {
#ifdef __APPLE__
  int fd = accept(listener, NULL, NULL), on = 1;
  if (fd >= 0 && close_on_exec(fd) && posix_nonblocking(fd) && setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
#else
  return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
#endif
}

int os_take_connection(int inherited) { return fcntl(inherited, F_SETFD, FD_CLOEXEC) == 0 && posix_nonblocking(inherited) ? inherited : -1; }
