/* Signals to this process wake its loop through a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "client/client.h"

int wake_fd = -1, interrupt_count, first_interrupt;
bool terminal_changed;

static int wake_end = -1;
/* SIGPIPE and SIGXFSZ are ignored, so that write(2) fails and the error is reported. */
static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT, SIGPIPE, SIGXFSZ};
#define TAKEN (sizeof taken / sizeof *taken)
static struct sigaction before[TAKEN];

static void wake(int signal) {
  int error = errno;
  unsigned char byte = (unsigned char)signal;
  (void)!write(wake_end, &byte, 1);
  errno = error;
}

void interrupts_open(void) {
  int ends[2];
  if (pipe(ends) != 0) leave_to_node();
  for (int i = 0; i < 2; i++) {
    fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    fcntl(ends[i], F_SETFL, O_NONBLOCK);
  }
  wake_fd = ends[0];
  wake_end = ends[1];
  for (size_t i = 0; i < TAKEN; i++) {
    struct sigaction action = {.sa_handler = taken[i] == SIGPIPE || taken[i] == SIGXFSZ ? SIG_IGN : wake};
    sigaction(taken[i], &action, &before[i]);
  }
}

bool interrupts_take(void) {
  unsigned char signals[64];
  bool interrupted = false;
  ssize_t n;
  while ((n = read(wake_fd, signals, sizeof signals)) > 0)
    for (ssize_t i = 0; i < n; i++) {
      if (signals[i] == SIGWINCH || signals[i] == SIGCONT) {
        terminal_changed = true;
        continue;
      }
      if (first_interrupt == 0) first_interrupt = signals[i];
      interrupt_count++;
      interrupted = true;
    }
  return interrupted;
}

void interrupts_close(void) {
  if (wake_fd < 0) return;
  for (size_t i = 0; i < TAKEN; i++) sigaction(taken[i], &before[i], NULL);
}
