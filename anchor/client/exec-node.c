/* Executes the command line in Node. `holdfast shellenv` has made a directory with links to both programs:
 *
 *   native/bin/holdfast   a link to this program
 *   native/cli.js         a link to the command line
 *   native/node           a link to the Node that it was installed with */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include "client/client.h"

static char node[CLIENT_PATH], cli[CLIENT_PATH];
static int words_count;
static char **words;

/* The path by which this program was executed, the link itself. */
static const char *own_path(char **argv) {
#ifdef __linux__
  const char *path = (const char *)getauxval(AT_EXECFN);
  if (path != NULL) return path;
#endif
  return argv[0];
}

/* `native/bin/holdfast` to `native/<name>`. */
static bool sibling(const char *self, const char *name, char *out) {
  int parent = 0;
  const char *slash = strrchr(self, '/');
  if (slash != NULL) parent = (int)(slash - self);
  int n = slash == NULL ? snprintf(out, CLIENT_PATH, "../%s", name) : snprintf(out, CLIENT_PATH, "%.*s/../%s", parent, self, name);
  return n > 0 && n < CLIENT_PATH;
}

void find_node(int argc, char **argv) {
  const char *self = own_path(argv);
  words_count = argc;
  words = argv;
  if (!sibling(self, "cli.js", cli) || !sibling(self, "node", node) || access(cli, R_OK) != 0) {
    fprintf(stderr,
            "holdfast: %s is stale: the installation that it was made for is gone. Nothing was started. Run `holdfast shellenv` of the "
            "installed version to make it again, or remove it from PATH\n",
            self);
    exit(EXIT_FAILURE_OURS);
  }
}

/* Executes the Node that the link names, or the Node in PATH if that one was replaced. */
static _Noreturn void execute(char **argv) {
  interrupts_close();
  argv[0] = node;
  argv[1] = cli;
  execv(node, argv);
  argv[0] = "node";
  execvp("node", argv);
  fprintf(stderr, "holdfast: cannot execute node, which this command needs: %s\n", strerror(errno));
  exit(EXIT_FAILURE_OURS);
}

void leave_to_node(void) {
  char **argv = calloc((size_t)words_count + 3, sizeof *argv);
  if (argv == NULL) exit(EXIT_FAILURE_OURS);
  if (words_count > 0) memcpy(argv + 2, words + 1, (size_t)words_count * sizeof *argv); /* with the NULL at the end */
  execute(argv);
}

void continue_in_node(const struct progress *p) {
  char state[160];
  char **argv = calloc((size_t)words_count + 5, sizeof *argv);
  if (argv == NULL) exit(EXIT_FAILURE_OURS);
  terminal_restore();
  snprintf(state, sizeof state, "--requested-run=%s:%llu:%llu:%llu:%d:%d", p->run_id, (unsigned long long)p->written[0],
           (unsigned long long)p->written[1], (unsigned long long)p->input, p->first_signal, p->signals);
  argv[2] = words[1]; /* run */
  argv[3] = state;
  memcpy(argv + 4, words + 2, (size_t)(words_count - 1) * sizeof *argv);
  execute(argv);
}
