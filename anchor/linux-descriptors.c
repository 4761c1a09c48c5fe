/* Linux: counts free descriptors, and polls open ones. */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#define RETRY_MS 20 /* length of a wait when poll(2) fails */

static long descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur > INT32_MAX ? INT32_MAX : (long)limit.rlim_cur;
}

long os_descriptor_limit(void) { return descriptor_limit(); }

long os_descriptors_free(long most) {
  long limit = descriptor_limit(), count = 0;
  for (long fd = 0; fd < limit && count < most; fd++) count += fcntl((int)fd, F_GETFD) < 0 && errno == EBADF;
  return count;
}

static void pause_ms(int ms) {
  struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ms * 1000000};
  (void)nanosleep(&time, NULL);
}

void os_poll(struct pollfd *set, nfds_t count, int timeout_ms) {
  static struct pollfd open[POLL_MAX];
  static nfds_t place[POLL_MAX];
  nfds_t used = 0;
  for (nfds_t i = 0; i < count; i++) {
    set[i].revents = 0;
    if (set[i].fd < 0 || used == POLL_MAX) continue;
    open[used] = set[i];
    place[used++] = i;
  }
  int ready = poll(open, used, timeout_ms);
  if (ready < 0 && errno != EINTR) { /* EINVAL: the limit is below the number of open descriptors. ENOMEM: temporary */
    for (nfds_t i = 0; i < used; i++)
      if (poll(&open[i], 1, 0) < 0) open[i].revents = 0;
    pause_ms(timeout_ms >= 0 && timeout_ms < RETRY_MS ? timeout_ms : RETRY_MS);
    ready = 1;
  }
  for (nfds_t i = 0; ready > 0 && i < used; i++) set[place[i]].revents = open[i].revents;
}
