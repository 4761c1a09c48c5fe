/* Linux: which signals reach us, and what a command finds of that. */
#include "os.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNALS 64
#define KERNEL_SET (SIGNALS / 8)

int os_hear_signals(void) {
  /* The raw call: the library's leaves out the numbers that it uses itself, and those would end us. The kernel delivers
     KILL and STOP, and a fault of our own, all the same. */
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
