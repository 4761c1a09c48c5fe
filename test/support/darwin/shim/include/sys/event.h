#ifndef SYS_EVENT_H
#define SYS_EVENT_H

#include <stdint.h>
#include <time.h>

#define EVFILT_READ (-1)
#define EVFILT_PROC (-5)
#define EVFILT_TIMER (-7)
#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ONESHOT 0x0010
#define EV_CLEAR 0x0020
#define NOTE_EXIT 0x80000000u
#define NOTE_FORK 0x40000000u

struct kevent {
  uintptr_t ident;
  int16_t filter;
  uint16_t flags;
  uint32_t fflags;
  intptr_t data;
  void *udata;
};
#define EV_SET(event, a, b, c, d, e, f) \
  (*(event) = (struct kevent){.ident = (a), .filter = (b), .flags = (c), .fflags = (d), .data = (e), .udata = (f)})

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events, int event_count, const struct timespec *timeout);

#endif
