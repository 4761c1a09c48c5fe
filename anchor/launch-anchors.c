/* The anchors of a launcher: each is a forked child, until it has ended its run or has died. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"
#include "modes.h"

#define ANCHORS_FIRST 64 /* the list grows by doubling */
#define REAP_ROUND 4096

bool anchor_is_lost(const struct anchor *anchor) {
  return anchor->state == ANCHOR_LOST || anchor->state == ANCHOR_LOST_ZOMBIE;
}

const char *anchor_run(const struct anchor *anchor, int at) {
  if (at < 0) return anchor->run_id;
  if (anchor->heartbeat == NULL || anchor->heartbeat->runs[at].id[0] == 0) return NULL;
  return strcmp(anchor->heartbeat->runs[at].id, anchor->run_id) == 0 ? NULL : anchor->heartbeat->runs[at].id;
}

bool anchor_has_pid(pid_t pid, const void *of) {
  const struct launcher *launcher = of;
  for (size_t i = 0; i < launcher->anchor_count; i++)
    if (launcher->anchors[i].pid == pid && launcher->anchors[i].state != ANCHOR_LOST) return true; /* a lost one was reaped */
  return false;
}

size_t anchors_left(const struct launcher *launcher) {
  size_t count = 0;
  for (size_t i = 0; i < launcher->anchor_count; i++) count += launcher->anchors[i].state != ANCHOR_SWEPT_ZOMBIE;
  return count;
}

void anchor_forget(struct launcher *launcher, size_t at) {
  struct anchor *anchor = &launcher->anchors[at];
  if (anchor->heartbeat != NULL) (void)munmap(anchor->heartbeat, sizeof *anchor->heartbeat);
  *anchor = launcher->anchors[--launcher->anchor_count];
}

/* Replaces the launcher's command line, which the anchor inherited, so that `ps` shows the anchor, as far as there
 * is room. */
static void set_process_title(const struct launcher *launcher, const char *run_id, const char *directory) {
  char words[256];
  int length = snprintf(words, sizeof words, "holdfast-anchor%crun%c%s%c--dir%c%s", 0, 0, run_id, 0, 0, directory);
  if (launcher->title == NULL || length < 0) return;
  memset(launcher->title, 0, launcher->title_size);
  size_t fits = (size_t)length < sizeof words ? (size_t)length : sizeof words;
  memcpy(launcher->title, words, fits < launcher->title_size ? fits : launcher->title_size - 1);
  prctl(PR_SET_NAME, "holdfast-anchor");
}

static int become_anchor(const struct launcher *launcher, int connection, const char *run_id) {
  char directory[PATH_SIZE]; /* copied, because the title overwrites argv */
  snprintf(directory, sizeof directory, "%s", launcher->directory);
  (void)setsid(); /* its own group, which the launcher may signal; not the launcher's session, because the launcher's death would send SIGHUP to a stopped anchor */
  if (dup2(connection, 3) < 0) return 1;
  os_close_above(3);
  if (!os_init()) return 1;
  os_raise_priority(false); /* the launcher may run with raised priority */
  set_process_title(launcher, run_id, directory);
  return run_mode(run_id, directory, 3, launcher->have_cgroup ? launcher->runs_cgroup : NULL, launcher->note, true);
}

static bool make_room(struct launcher *launcher) {
  if (launcher->anchor_count < launcher->anchor_room) return true;
  size_t room = launcher->anchor_room == 0 ? ANCHORS_FIRST : launcher->anchor_room * 2;
  struct anchor *more = realloc(launcher->anchors, room * sizeof *more);
  if (more == NULL) return false;
  launcher->anchors = more;
  launcher->anchor_room = room;
  return true;
}

void anchor_start(struct launcher *launcher, int connection, const char *run_id) {
  if (!make_room(launcher)) return;
  struct heartbeat *heartbeat = mmap(NULL, sizeof *heartbeat, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (heartbeat == MAP_FAILED) heartbeat = NULL; /* the anchor is not watched */
  else heartbeat->beat = os_now_ms();
  pid_t pid = fork(); /* no exec: it would take several times as long as the rest */
  if (pid == 0) {
    own_heartbeat = heartbeat;
    exit(become_anchor(launcher, connection, run_id));
  }
  if (pid < 0) {
    if (heartbeat != NULL) (void)munmap(heartbeat, sizeof *heartbeat);
    return;
  }
  if (heartbeat != NULL) (void)madvise(heartbeat, sizeof *heartbeat, MADV_DONTFORK); /* other anchors do not inherit it */
  struct anchor *anchor = &launcher->anchors[launcher->anchor_count++];
  *anchor = (struct anchor){.pid = pid, .kill_mode = "pid", .heartbeat = heartbeat};
  snprintf(anchor->run_id, sizeof anchor->run_id, "%s", run_id);
}

void anchor_lose(struct launcher *launcher, struct anchor *anchor, enum anchor_state state, int code, int signal) {
  anchor->state = state;
  anchor->lost_at = os_now_ms();
  anchor->code = code;
  anchor->signal = signal;
  launcher->clean_pause = 0; /* its processes are ended at once */
  clients_send_lost(launcher, anchor);
}

static void anchor_reaped(struct launcher *launcher, size_t at, int status) {
  struct anchor *anchor = &launcher->anchors[at];
  switch (anchor->state) {
    case ANCHOR_ALIVE:
      /* 0: its run has ended. 1: it never started. Otherwise it died. */
      if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) anchor_forget(launcher, at);
      else anchor_lose(launcher, anchor, ANCHOR_LOST, WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
      break;
    case ANCHOR_LOST_ZOMBIE: anchor->state = ANCHOR_LOST; break;
    case ANCHOR_SWEPT_ZOMBIE: anchor_forget(launcher, at); break;
    case ANCHOR_LOST: break; /* reaped before, so the pid is another process */
  }
}

void anchors_reap(struct launcher *launcher) {
  int status, reaped = 0;
  for (pid_t pid; reaped++ < REAP_ROUND && (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
    residue_reaped(launcher, pid);
    for (size_t i = 0; i < launcher->anchor_count; i++) {
      if (launcher->anchors[i].pid != pid || launcher->anchors[i].state == ANCHOR_LOST) continue;
      anchor_reaped(launcher, i, status);
      break;
    }
  }
}
