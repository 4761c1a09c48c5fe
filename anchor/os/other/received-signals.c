/* Other POSIX systems: signals that an anchor receives. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/other/other.h"

#ifndef NSIG
#define NSIG 65
#endif

/* A message from the signal handler to the event loop. */
struct note {
  int number;
  pid_t sender;
};

static int notes[2] = {-1, -1};
static pid_t owner; /* a forked process has the handlers too until it replaces them */
static volatile sig_atomic_t child_noted;

static void on_signal(int number, siginfo_t *info, void *context) {
  int error = errno;
  (void)context;
  const struct note note = {.number = number, .sender = info == NULL ? 0 : info->si_pid};
  bool again = number == SIGCHLD && child_noted; /* once until it is read, so that the pipe has room for other signals */
  if (number == SIGCHLD) child_noted = 1;
  if (!again && getpid() == owner) (void)!write(notes[1], &note, sizeof note);
  errno = error;
}

static bool is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP || number == SIGABRT || number == SIGSYS;
}

/* Names of the signals by which an operator stops a run; NULL for others. */
static const char *stop_signal(int number) {
  switch (number) {
    case SIGTERM: return "TERM";
    case SIGINT: return "INT";
    case SIGHUP: return "HUP";
    case SIGQUIT: return "QUIT";
    default: return NULL;
  }
}

int os_events_open(void) {
  struct sigaction noted = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, ignored = {.sa_handler = SIG_IGN};
  sigset_t none;
  if (!posix_pipe(notes) || !posix_nonblocking(notes[0]) || !posix_nonblocking(notes[1])) return -1;
  owner = getpid();
  sigfillset(&noted.sa_mask);
  for (int number = 1; number < NSIG; number++) {
    if (is_fault(number)) (void)signal(number, SIG_DFL);
    else (void)sigaction(number, stop_signal(number) != NULL || number == SIGCHLD ? &noted : &ignored, NULL); /* refused for KILL and STOP */
  }
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  return notes[0];
}

void posix_default_signals(void) {
  for (int number = 1; number < NSIG; number++) (void)signal(number, SIG_DFL); /* refused for KILL and STOP */
}

void posix_unblock_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

bool os_next_stop_request(int events, char *actor, size_t size) {
  struct note note;
  child_noted = 0; /* first: a child that ends from now on is noted again */
  while (os_read(events, &note, sizeof note) == (long)sizeof note) {
    const char *name = stop_signal(note.number);
    if (name == NULL) continue;
    snprintf(actor, size, "signal:%s pid:%d", name, (int)note.sender);
    return true;
  }
  return false;
}

bool os_become_reaper(void) { return true; }
