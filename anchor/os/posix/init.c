/* `anchor init -- command`: PID 1 of a container, because Node does not reap. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "modes/modes.h"
#include "os/posix/posix.h"

int init_mode(char **command) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &all, NULL);
  (void)os_become_reaper(); /* PID 1 of a container is a reaper anyway */
  pid_t child = fork();
  if (child < 0) {
    fprintf(stderr, "anchor init: fork: %s\n", strerror(errno));
    return 125;
  }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (isatty(0)) {
      signal(SIGTTOU, SIG_IGN);
      tcsetpgrp(0, getpid());
      signal(SIGTTOU, SIG_DFL);
    }
    execvp(command[0], command);
    int error = errno;
    fprintf(stderr, "anchor init: %s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126);
  }
  setpgid(child, child); /* also here, because a signal may come before the child has run */
  for (;;) {
    int signal;
    if (sigwait(&all, &signal) != 0) continue;
    if (signal != SIGCHLD) {
      struct member member;
      if (os_read_process(child, &member)) { /* our own child, not yet reaped: its pid is not reused */
        posix_signal(&member, signal);
        os_release(&member);
      }
      continue;
    }
    struct os_ended ended;
    int leader = -1;
    while (os_next_ended(&ended) > 0) {
      os_reap(ended.pid);
      if (ended.pid == child) leader = ended.code < 0 ? 128 + ended.signal : (int)ended.code;
    }
    if (leader >= 0) return leader;
  }
}
