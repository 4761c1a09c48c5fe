/* POSIX: a launcher as a process of its own, and the anchors it starts by fork. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/modes.h"
#include "os/posix/posix.h"

#define CONNECTION 3

static void *inherited;

void os_detach(void) {
  posix_close_above(2);
  (void)setsid();
}

void os_release_caller(void) {
  (void)!chdir("/");
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; fd++) (void)dup2(null, fd);
  if (null > 2) close(null);
}

void *os_anchor_shared(size_t size) {
  (void)size;
  return inherited;
}

static struct {
  char *memory; /* NULL: none */
  size_t size;
  const char *directory;
} title;

/* Replaces the launcher's command line, which the anchor inherited, as far as there is room. */
static void set_title(const char *mode, const char *run_id) {
  char words[256];
  int length = snprintf(words, sizeof words, "holdfast-anchor%c%s%c%s%c--dir%c%s", 0, mode, 0, run_id, 0, 0, title.directory);
  if (title.memory == NULL || length < 0) return;
  memset(title.memory, 0, title.size);
  size_t fits = (size_t)length < sizeof words ? (size_t)length : sizeof words;
  memcpy(title.memory, words, fits < title.size ? fits : title.size - 1);
}

void os_anchor_title(const char *run_id) { set_title("run", run_id); }

static int become_anchor(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *, int)) {
  static char directory[PATH_SIZE]; /* copied, because the title overwrites argv */
  struct os_anchor_start ours = *start;
  snprintf(directory, sizeof directory, "%s", start->directory);
  ours.directory = directory;
  inherited = start->shared;
  (void)setsid(); /* its own group, which the launcher may signal; not the launcher's session, because the launcher's death would send SIGHUP to a stopped anchor */
  if (dup2(start->connection, CONNECTION) < 0) return ANCHOR_NOT_STARTED;
  posix_close_above(CONNECTION);
  if (!os_init()) return ANCHOR_NOT_STARTED;
  os_raise_priority(false); /* the launcher may run with raised priority */
  title.memory = start->title;
  title.size = start->title_size;
  title.directory = directory;
  set_title(start->warm ? "warm" : "run", start->run_id);
  posix_set_name("holdfast-anchor");
  return body(&ours, CONNECTION);
}

/* No exec: it would take several times as long as the rest. */
os_pid os_anchor_start(const struct os_anchor_start *start, int (*body)(const struct os_anchor_start *, int), void **kept) {
  pid_t pid = fork();
  *kept = NULL;
  if (pid == 0) exit(become_anchor(start, body));
  if (pid > 0 && start->shared != NULL) posix_keep_from_children(start->shared, start->shared_size); /* other anchors do not inherit it */
  return pid;
}

void os_anchor_release(void *kept) { (void)kept; }
