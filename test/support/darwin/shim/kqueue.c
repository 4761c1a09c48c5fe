/* kqueue(2) by epoll: readable descriptors, one timer, ends of processes by pidfd, and forks as kernel.c tells them. */
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/event.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shim.h"

#define NOTES 65536
#define FILTER_FORKS 1 /* the connection that tells forks */

static struct note {
  pid_t owner; /* a forked process has the table too, but not the descriptors. 0: free */
  int queue, fd;
  int16_t filter;
  uintptr_t ident;
  uint32_t fflags;
} notes[NOTES];
static uint32_t note_count;

static void drop(struct note *note) {
  if (note->owner == getpid() && note->filter != EVFILT_READ) close(note->fd);
  *note = (struct note){0};
}

int kqueue(void) {
  int queue = epoll_create1(0);
  for (uint32_t i = 0; i < note_count; i++)
    if (notes[i].owner != 0 && (notes[i].owner != getpid() || notes[i].queue == queue)) drop(&notes[i]);
  return queue;
}

static struct note *find(int queue, int16_t filter, uintptr_t ident) {
  for (uint32_t i = 0; i < note_count; i++)
    if (notes[i].owner == getpid() && notes[i].queue == queue && notes[i].filter == filter && notes[i].ident == ident) return &notes[i];
  return NULL;
}

static int add(int queue, int16_t filter, uintptr_t ident, uint32_t fflags, int fd) {
  uint32_t at = 0;
  while (at < note_count && notes[at].owner != 0) at++;
  if (fd < 0 || at == NOTES) return -1;
  if (at == note_count) note_count++;
  notes[at] = (struct note){.owner = getpid(), .queue = queue, .fd = fd, .filter = filter, .ident = ident, .fflags = fflags};
  return epoll_ctl(queue, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.u32 = at});
}

static int watch_forks(int queue, pid_t pid) {
  struct note *forks = find(queue, FILTER_FORKS, 0);
  int32_t request = pid;
  if (forks == NULL && add(queue, FILTER_FORKS, 0, 0, connect_kernel()) != 0) return -1;
  forks = find(queue, FILTER_FORKS, 0);
  return send(forks->fd, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request && sync_kernel() ? 0 : -1;
}

static int add_process(int queue, const struct kevent *change) {
  struct proc_stat stat;
  pid_t pid = (pid_t)change->ident;
  int handle = find(queue, EVFILT_PROC, change->ident) != NULL ? -2 : (int)syscall(SYS_pidfd_open, pid, 0);
  if (handle == -2) return 0;
  if (handle < 0 || !read_proc_stat(pid, &stat) || stat.state == 'Z') {
    if (handle >= 0) close(handle);
    errno = ESRCH;
    return -1;
  }
  if (add(queue, EVFILT_PROC, change->ident, change->fflags, handle) != 0) return -1;
  return (change->fflags & NOTE_FORK) == 0 ? 0 : watch_forks(queue, pid);
}

static int add_timer(int queue, const struct kevent *change) {
  struct note *timer = find(queue, EVFILT_TIMER, change->ident);
  if (timer == NULL && add(queue, EVFILT_TIMER, change->ident, 0, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) != 0) return -1;
  timer = find(queue, EVFILT_TIMER, change->ident);
  struct itimerspec at = {.it_value = {.tv_sec = change->data / 1000, .tv_nsec = change->data % 1000 * 1000000}};
  return timerfd_settime(timer->fd, 0, &at, NULL);
}

static int delete(int queue, const struct kevent *change) {
  struct note *note = find(queue, change->filter, change->ident);
  errno = ENOENT;
  if (note == NULL) return -1;
  drop(note);
  return 0;
}

static int apply(int queue, const struct kevent *change) {
  if ((change->flags & EV_DELETE) != 0) return delete(queue, change);
  switch (change->filter) {
    case EVFILT_READ: return add(queue, EVFILT_READ, change->ident, 0, (int)change->ident);
    case EVFILT_PROC: return add_process(queue, change);
    case EVFILT_TIMER: return add_timer(queue, change);
    default: errno = EINVAL; return -1;
  }
}

/* False: it was only for the shim. */
static bool take(struct note *note, struct kevent *out) {
  int32_t pid;
  uint64_t expirations;
  *out = (struct kevent){.ident = note->ident, .filter = note->filter};
  switch (note->filter) {
    case EVFILT_TIMER: return read(note->fd, &expirations, sizeof expirations) == (ssize_t)sizeof expirations;
    case FILTER_FORKS:
      if (recv(note->fd, &pid, sizeof pid, MSG_DONTWAIT) != (ssize_t)sizeof pid) return false;
      *out = (struct kevent){.ident = (uintptr_t)pid, .filter = EVFILT_PROC, .fflags = NOTE_FORK};
      return true;
    case EVFILT_PROC:
      out->fflags = NOTE_EXIT;
      drop(note);
      return true;
    default: return true;
  }
}

int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events, int event_count, const struct timespec *timeout) {
  for (int i = 0; i < change_count; i++)
    if (apply(queue, &changes[i]) != 0) return -1;
  if (event_count == 0) return 0;
  int wait = timeout == NULL ? -1 : (int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000);
  struct epoll_event ready;
  int count = epoll_wait(queue, &ready, 1, wait);
  if (count <= 0) return count;
  return take(&notes[ready.data.u32], events) ? 1 : 0;
}
