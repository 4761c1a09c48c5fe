/* Linux: signals that an anchor receives, and its ended children. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/linux/linux.h"

#define SIGNALS 64
#define KERNEL_SET (SIGNALS / 8)

int os_events_open(void) {
  /* The raw system call, because libc's wrapper leaves its internal signals unblocked, whose default action ends the
     process. KILL, STOP and synchronous faults cannot be blocked. */
  const uint64_t every = UINT64_MAX;
  sigset_t mask;
  if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &every, NULL, KERNEL_SET) != 0) return -1;
  posix_default_signals();
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGXFSZ, SIG_IGN); /* write(2) then fails with EFBIG */
  sigfillset(&mask);
  return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A forked process inherits the dispositions, and this variable: only those that os_events_open sets are left. */
void posix_default_signals(void) {
  static bool set;
  (void)signal(SIGPIPE, SIG_DFL);
  (void)signal(SIGXFSZ, SIG_DFL);
  for (int number = 1; !set && number <= SIGNALS; number++) (void)signal(number, SIG_DFL); /* refused for KILL and STOP */
  set = true;
}

void posix_unblock_signals(void) {
  const uint64_t none = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_SET);
}

/* Names of the signals by which an operator stops a run; NULL for others. */
static const char *stop_signal(uint32_t number) {
  switch (number) {
    case SIGTERM: return "TERM";
    case SIGINT: return "INT";
    case SIGHUP: return "HUP";
    case SIGQUIT: return "QUIT";
    default: return NULL;
  }
}

bool os_next_stop_request(int events, char *actor, size_t size) {
  struct signalfd_siginfo info;
  while (os_read(events, &info, sizeof info) == (long)sizeof info) {
    const char *name = stop_signal(info.ssi_signo);
    if (name == NULL) continue; /* SIGCHLD and others need no action here */
    snprintf(actor, size, "signal:%s pid:%u", name, info.ssi_pid);
    return true;
  }
  return false;
}

bool os_become_reaper(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

/* The raw system call, because libc's waitid does not return the resource usage. */
int os_next_ended(struct os_ended *out) {
  siginfo_t info;
  struct rusage usage;
  memset(&info, 0, sizeof info);
  if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, &usage) != 0) return errno == ECHILD ? -1 : 0;
  if (info.si_pid == 0) return 0;
  const bool exited = info.si_code == CLD_EXITED;
  *out = (struct os_ended){
      .pid = info.si_pid, .code = exited ? info.si_status : -1, .signal = exited ? 0 : info.si_status,
      .cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000,
      .peak_kb = (uint64_t)usage.ru_maxrss,
  };
  return 1;
}

void os_reap(os_pid pid) {
  while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) continue;
}
