/* Linux: signals that an anchor receives, and the signal state that a command starts with. */
#include "os.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNALS 64
#define KERNEL_SET (SIGNALS / 8)

int os_open_signal_fd(void) {
  /* The raw system call, because libc's wrapper leaves its internal signals unblocked, whose default action ends the
     process. KILL, STOP and synchronous faults cannot be blocked. */
  const uint64_t every = UINT64_MAX;
  sigset_t mask;
  if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &every, NULL, KERNEL_SET) != 0) return -1;
  sigfillset(&mask);
  return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

void os_default_signals(void) {
  for (int number = 1; number <= SIGNALS; number++) (void)signal(number, SIG_DFL); /* refused for KILL and STOP */
}

void os_unblock_signals(void) {
  const uint64_t none = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_SET);
}
