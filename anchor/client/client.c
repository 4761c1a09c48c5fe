/* The native `holdfast`: requests a foreground run and follows it, or executes Node for any other command. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "modes/modes.h"

#define LATE_ANSWER_MS 500 /* as src/cli/run/run-in-foreground.ts: a run that has just started should be stopped, not left */

static struct gateway gateway = {.fd = -1};

/* An interrupt limits the wait for the start of the run. The gateway ends a run whose client is gone. */
static bool go_on(bool late) {
  if (late || interrupt_count > 2) return false;
  if (interrupt_count == 1) gateway.until = now_ms() + LATE_ANSWER_MS;
  say_interrupt();
  return true;
}

static bool is_set(const char *name, const char *to) {
  const char *value = getenv(name);
  return value != NULL && (to == NULL || strcmp(value, to) == 0);
}

/* True if only Node can make the request: the request of a session may wait for an approval. */
static bool is_for_node(void) {
  char user[128];
  if (is_set("HOLDFAST_TOKEN", NULL) && !is_set("HOLDFAST_AS_OPERATOR", "1")) return true;
  return is_set("HOLDFAST_IN_PROCESS", "1") || !user_name(user, sizeof user);
}

/* Descriptors 0 to 2 are always open, as in Node. */
static void open_missing_descriptors(void) {
  int fd;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3) continue;
  if (fd >= 3) close(fd);
}

/* Prints why the command could not be started; the gateway has recorded the failure. Returns the exit code; -1: Node must
 * print it. */
static int report_failed_start(struct json_value error) {
  char message[4096], step[32];
  uint64_t number;
  if (!json_text(json_member(error, "message"), message, sizeof message) || !json_text(json_member(error, "step"), step, sizeof step)) return -1;
  for (const char *at = message; *at != 0; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f || (unsigned char)*at >= 0x80) return -1;
  if (!json_integer(json_member(error, "errno"), &number)) return -1;
  notice_red("%s", message);
  if (strcmp(step, "cwd") == 0) return 2;
  if (strcmp(step, "exec") != 0) return EXIT_FAILURE_OURS;
  return number == ENOENT ? 127 : 126;
}

/* Handles an error response. After a 4xx nothing was started, so Node repeats the request and reports the error. */
static int on_error(const struct answer *answer, const char *run_id) {
  struct progress progress = {.run_id = run_id};
  struct json_value content, error;
  if (answer->status >= 400 && answer->status < 500) leave_to_node();
  if (json_parse(answer->body, answer->length, &content)) {
    error = json_member(content, "error");
    struct json_value code = json_member(error, "code");
    if (json_is(code, "\"SPAWN_FAILED\"") || json_is(code, "\"LIMIT_UNAVAILABLE\"")) {
      int status = report_failed_start(error);
      if (status >= 0) return status;
    }
  }
  continue_in_node(&progress);
}

/* The directory of the run. False: the answer does not name it. */
static bool run_directory(const struct answer *answer, const char *run_id, char out[CLIENT_PATH + 128]) {
  struct json_value content;
  char instance[64];
  if (!json_parse(answer->body, answer->length, &content)) return false;
  if (!json_text(json_member(json_member(content, "run"), "ownerInstanceId"), instance, sizeof instance)) return false;
  if (instance[0] == 0 || strchr(instance, '/') != NULL || instance[0] == '.') return false;
  return snprintf(out, CLIENT_PATH + 128, "%s/instances/%s/runs/%s", gateway.home, instance, run_id) < CLIENT_PATH;
}

int client_mode(int argc, char **argv) {
  static struct options options;
  static char directory[CLIENT_PATH + 128];
  struct answer answer = {0};
  char run_id[RUN_ID_SIZE];
  struct progress progress = {.run_id = run_id};
  int rows = 0, cols = 0;
  size_t length;
  open_missing_descriptors();
  find_node(argc, argv);
  if (!parse_options(argc, argv, &options) || is_for_node()) leave_to_node();
  if (!find_state_directory(gateway.home) || !gateway_connect(&gateway)) leave_to_node();
  if (!options.pty_given) options.pty = !options.merge && is_one_terminal() && in_foreground();
  if (options.pty) (void)terminal_size(&rows, &cols);
  char *body = new_id("run", run_id, sizeof run_id) ? exec_request(&options, run_id, rows, cols, &length) : NULL;
  if (body == NULL) leave_to_node();
  interrupts_open();
  switch (gateway_request(&gateway, "POST", "/v1/exec", body, length, go_on, -1, &answer)) {
    case NOT_SENT: leave_to_node();
    case BROKEN_OFF: continue_in_node(&progress);
    case INTERRUPTED: return EXIT_SIGNAL + first_interrupt;
    case ANSWERED: break;
  }
  free(body);
  if (answer.status != 200) return on_error(&answer, run_id);
  if (!run_directory(&answer, run_id, directory)) continue_in_node(&progress);
  free(answer.body);
  return follow_run(&gateway, &options, run_id, directory);
}
