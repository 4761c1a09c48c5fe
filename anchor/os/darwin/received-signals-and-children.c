/* macOS: signals that an anchor receives, forks and ends of its processes, and its ended children. */
#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/event.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

#define SCAN_TIMER 1
#define SCAN_SHARE 20 /* lists of all processes take at most this part of the time */
#define SCAN_MOST_MS 200
#define STOPS_AT_ONCE 1024
#define EVENTS_AT_ONCE 256 /* processes that fork without pause must not occupy the event loop */

/* A message from the signal handler to the event loop, through a pipe: EVFILT_SIGNAL does not report the sender. */
struct note {
  int number;
  pid_t sender;
};

static int queue = -1, notes[2] = {-1, -1};
static pid_t owner; /* a forked process has the handlers too until it replaces them */
static volatile sig_atomic_t child_noted;
static uint64_t scan_from; /* no list of all processes for the sake of events before this time */
static bool scan_due;

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

static void install_handlers(void) {
  struct sigaction noted = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, ignored = {.sa_handler = SIG_IGN};
  sigfillset(&noted.sa_mask);
  for (int number = 1; number < NSIG; number++) {
    if (is_fault(number)) (void)signal(number, SIG_DFL);
    else (void)sigaction(number, stop_signal(number) != NULL || number == SIGCHLD ? &noted : &ignored, NULL); /* refused for KILL and STOP */
  }
}

int os_events_open(void) {
  struct kevent wanted;
  sigset_t none;
  queue = kqueue();
  if (queue < 0 || !posix_pipe(notes) || !posix_nonblocking(notes[0]) || !posix_nonblocking(notes[1])) return -1;
  EV_SET(&wanted, (uintptr_t)notes[0], EVFILT_READ, EV_ADD, 0, 0, NULL);
  if (kevent(queue, &wanted, 1, NULL, 0, NULL) != 0) return -1;
  owner = getpid();
  install_handlers();
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  return queue;
}

void posix_default_signals(void) {
  for (int number = 1; number < NSIG; number++) (void)signal(number, SIG_DFL); /* refused for KILL and STOP */
}

void posix_unblock_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Removes the filter of an earlier process with this pid. If its end was not reported, its event would be attributed to the new
 * process, and EV_ADD would not watch the new process. */
bool watch_process(pid_t pid) {
  struct kevent wanted;
  if (queue < 0) return false;
  EV_SET(&wanted, (uintptr_t)pid, EVFILT_PROC, EV_DELETE, 0, 0, NULL);
  (void)kevent(queue, &wanted, 1, NULL, 0, NULL); /* mostly there is none */
  EV_SET(&wanted, (uintptr_t)pid, EVFILT_PROC, EV_ADD | EV_CLEAR, NOTE_FORK | NOTE_EXIT, 0, NULL);
  return kevent(queue, &wanted, 1, NULL, 0, NULL) == 0;
}

int never_ready(void) { return fcntl(notes[1], F_DUPFD_CLOEXEC, 0); }

/* ---- what happened ---- */

static bool take_stop_request(char *actor, size_t size) {
  struct note note;
  child_noted = 0; /* first: a child that ends from now on is noted again */
  while (os_read(notes[0], &note, sizeof note) == (long)sizeof note) {
    const char *name = stop_signal(note.number);
    if (name == NULL) continue;
    snprintf(actor, size, "signal:%s pid:%d", name, note.sender);
    return true;
  }
  return false;
}

static void take_process(const struct kevent *event) {
  if ((event->fflags & NOTE_FORK) != 0) lineage_forked((pid_t)event->ident);
  if ((event->fflags & NOTE_EXIT) != 0) lineage_ended((pid_t)event->ident);
  scan_due = true;
}

/* Finds what single events do not show, as often as the machine allows. */
static void scan_in_time(void) {
  struct kevent timer;
  uint64_t now = os_now_ms();
  if (!scan_due) return;
  if (now < scan_from) {
    EV_SET(&timer, SCAN_TIMER, EVFILT_TIMER, EV_ADD | EV_ONESHOT, 0, (intptr_t)(scan_from - now), NULL);
    if (kevent(queue, &timer, 1, NULL, 0, NULL) == 0) return;
  }
  scan_due = false;
  (void)lineage_scan();
  uint64_t done = os_now_ms(), pause = (done - now + 1) * SCAN_SHARE;
  scan_from = done + (pause < SCAN_MOST_MS ? pause : SCAN_MOST_MS);
}

bool os_next_stop_request(int events, char *actor, size_t size) {
  const struct timespec at_once = {0};
  struct kevent event;
  if (take_stop_request(actor, size)) return true;
  for (int taken = 0; taken < EVENTS_AT_ONCE && kevent(events, NULL, 0, &event, 1, &at_once) > 0; taken++) {
    if (event.filter == EVFILT_READ && take_stop_request(actor, size)) return true;
    if (event.filter == EVFILT_PROC) take_process(&event);
  }
  scan_in_time();
  return false;
}

/* ---- children ---- */

/* There is no subreaper: a launcher and `anchor reap` find orphans by the lineage of their run. */
bool os_become_reaper(void) { return true; }

static void read_usage(pid_t pid, struct os_ended *out) {
  struct rusage_info_v4 usage;
  memset(&usage, 0, sizeof usage);
  if (proc_pid_rusage(pid, RUSAGE_INFO_V4, (rusage_info_t *)&usage) != 0) return;
  out->cpu_ms = mach_ms(usage.ri_user_time + usage.ri_system_time + usage.ri_child_user_time + usage.ri_child_system_time);
  out->peak_kb = usage.ri_lifetime_max_phys_footprint / 1024;
}

static bool is_end(const siginfo_t *info) { return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED; }

/* waitid(2) of macOS also reports children that have stopped. Their reports are consumed, because they would come before those of
 * children that have ended. Returns as os_next_ended. */
static int find_ended(siginfo_t *info) {
  for (int reports = 0; reports < STOPS_AT_ONCE; reports++) {
    memset(info, 0, sizeof *info);
    if (waitid(P_ALL, 0, info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD ? -1 : 0;
    if (info->si_pid == 0) return 0;
    if (is_end(info)) return 1;
    (void)waitid(P_PID, (id_t)info->si_pid, info, WSTOPPED | WCONTINUED | WNOHANG);
  }
  return 0;
}

/* macOS puts further bits above the 8 bits of an exit status, and reports no signal: the signal is in the wait status of the
 * zombie. The wait status of another user's child is hidden; only root can have killed that child. */
static void read_status(const siginfo_t *info, struct os_ended *out) {
  int status = SIGKILL;
  const bool exited = info->si_code == CLD_EXITED;
  if (!exited) (void)read_wait_status(info->si_pid, &status);
  *out = (struct os_ended){.pid = info->si_pid, .code = exited ? info->si_status & 0xff : -1, .signal = exited ? 0 : WTERMSIG(status)};
}

int os_next_ended(struct os_ended *out) {
  siginfo_t info;
  int found = find_ended(&info);
  if (found <= 0) return found;
  read_status(&info, out);
  read_usage(info.si_pid, out);
  return 1;
}

void os_reap(os_pid pid) {
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}
