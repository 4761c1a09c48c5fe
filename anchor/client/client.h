/* `holdfast` as a native program: `holdfast run` in the foreground, under a gateway that is running. It sends the request to
 * the gateway, then follows the run through its anchor. For all other commands and options it executes the command line in
 * Node with the same arguments, before anything is started. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/json-read.h"
#include "format/frame.h"

#define CLIENT_PATH 4096
#define RUN_ID_SIZE 24
#define STREAMS 2 /* stdout, stderr */
#define SEGMENTS_KEPT 8
#define INPUT_ENDED "cli:input-ended" /* the actor of the stop of a run that outlived its input */

/* Exit codes of `holdfast` itself: src/cli/print/exit-code.ts. */
enum { EXIT_ESCAPE = 120, EXIT_TIMEOUT = 124, EXIT_FAILURE_OURS = 125, EXIT_SIGNAL = 128, EXIT_READER_GONE = 141 };

/* ---- exec-node.c ---- */

/* Finds the command line in Node. Ends this process if that installation is gone. */
void find_node(int argc, char **argv);
/* Executes the command line in Node with the same arguments. */
_Noreturn void leave_to_node(void);
/* Executes the command line in Node for a run that was already requested: Node follows the run from these offsets, or reports
 * its end. */
struct progress {
  const char *run_id;
  uint64_t written[STREAMS], input;
  int signals, first_signal; /* number of interrupts so far, and the signal of the first */
};
_Noreturn void continue_in_node(const struct progress *progress);

/* ---- options.c ---- */

struct options {
  char **command; /* ends with NULL */
  const char *cwd, *on_escape, *pids, *cpus; /* NULL: not given; pids and cpus are JSON numbers */
  uint64_t timeout, no_output, grace, buffer, memory; /* memory 0: no limit */
  int64_t end_with_input; /* -1: not given */
  bool merge, clear_env, pty, pty_given;
  char **labels, **variables, **allowed; /* as given; each ends with NULL */
};

/* False: Node must parse the command line, or execute an option that only it has. */
bool parse_options(int argc, char **argv, struct options *out);
/* A whole number of milliseconds or bytes with a unit. False: Node must parse it. */
bool parse_duration(const char *text, uint64_t *out);
bool parse_size(const char *text, uint64_t *out);

/* ---- state-directory.c ---- */

/* The state directory. False: Node must find it. */
bool find_state_directory(char out[CLIENT_PATH]);
/* True if no user but this one and root controls a path, as src/home/path-trust.ts defines it. False: Node decides. */
bool is_trusted_path(const char *path);
/* Reads a file of this user, which must not be a link. Returns the length without white space at the end; -1: it cannot be
 * used. */
long read_own_file(const char *path, char *out, size_t size);
/* Absolute, without `.`, `..` and double slashes. */
bool resolve_path(const char *path, char out[CLIENT_PATH]);

/* ---- exec-request.c ---- */

/* The body of POST /v1/exec, and its length. NULL: Node must send it. */
char *exec_request(const struct options *options, const char *run_id, int rows, int cols, size_t *length);
bool new_id(const char *prefix, char *out, size_t size);

/* ---- gateway.c ---- */

struct gateway {
  int fd; /* -1: not connected */
  char home[CLIENT_PATH], authorization[512];
  int64_t until; /* of the exchange that is under way, on the monotonic clock; -1: no limit */
};

struct answer {
  int status;
  char *body; /* to be freed */
  size_t length;
};

enum exchange { ANSWERED, NOT_SENT, BROKEN_OFF, INTERRUPTED };

/* Connects, and proves in both directions that the token is known. False: Node must connect, or report the reason. */
bool gateway_connect(struct gateway *gateway);
/* Sends a request and reads the answer. Calls `go_on` after each interrupt and at the timeout, and stops waiting if it
 * returns false. NOT_SENT: no byte has reached the gateway. */
enum exchange gateway_request(struct gateway *gateway, const char *method, const char *path, const char *body, size_t length,
                              bool (*go_on)(bool late), int timeout_ms, struct answer *out);
void gateway_close(struct gateway *gateway);
int64_t now_ms(void);
/* ---- signals.c ---- */

extern int wake_fd;            /* readable after a signal */
extern int interrupt_count;    /* INT, TERM and HUP so far */
extern int first_interrupt;    /* 0: none */
extern bool terminal_changed;  /* after WINCH or CONT; the reader resets it */
void interrupts_open(void);
/* Reads the signals that have arrived. True if one of them is an interrupt. */
bool interrupts_take(void);
/* Restores the signal handling that this process was started with, for exec. */
void interrupts_close(void);

/* ---- terminal.c ---- */

bool is_one_terminal(void); /* stdin, stdout and stderr are */
bool in_foreground(void);
bool terminal_size(int *rows, int *cols);
/* Puts the terminal into raw mode until exit, so that every key reaches the run. Does nothing in the background. */
void terminal_raw(void);
void terminal_restore(void);

/* ---- notice.c ---- */

/* A line on stderr, as the command line in Node writes it. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notice_red(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notice_dim(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The name of this user, for the actor of a stop. False: there is none. */
bool user_name(char *out, size_t size);
void format_duration(uint64_t ms, char *out, size_t size);
void format_size(uint64_t bytes, char *out, size_t size);

/* ---- anchor-link.c ---- */

struct link {
  int fd; /* -1: closed */
  uint8_t *in, *out;
  size_t in_used, out_used, out_sent;
};

/* Connects to the anchor of a run as its caller. */
bool link_open(struct link *link, const char *directory, const char *run_id);
void link_close(struct link *link);
bool link_backlogged(const struct link *link);
struct out link_out(struct link *link, uint8_t type);
void link_send(struct link *link, struct out *out);
void link_flush(struct link *link);
/* Reads the available bytes and calls `handle` for each frame. False: the connection has ended. */
bool link_read(struct link *link, void (*handle)(void *context, const struct frame *frame), void *context);

/* ---- output.c ---- */

/* Opens a pipe or terminal again, for a non-blocking file description of our own. -1: it is neither, or the system has no
 * /proc/self/fd. */
int open_own_description(int fd, int flags);

struct output {
  int stream, fd; /* 1 or 2; a description of our own, or the inherited one */
  enum { OWN_DESCRIPTION, REGULAR_FILE, SOCKET, SMALL_PIECES } how;
  bool failed, reader_gone, closed;
  int dir, segment;
  int kept[SEGMENTS_KEPT], next_kept; /* descriptors of earlier segments: see keep_segment */
  uint64_t base, read, written, acked, end; /* base: of the open segment; end: what the anchor has stored */
  uint64_t searched; /* `end` when there was nothing to read before it: a segment is damaged; 0: there was something */
  char *buffer;
  size_t buffered, sent;
  int error;
};

void output_open(struct output *output, int stream, int dir);
/* True if the descriptor must be polled for room. */
bool output_wants_room(const struct output *output);
/* Writes as much as there is room for. True if something was written or dropped. */
bool output_write(struct output *output);
/* Everything that the anchor has stored was written, or is lost. */
bool output_done(const struct output *output);

/* ---- input.c ---- */

struct input {
  int fd; /* -1: stdin has ended, or is no longer needed */
  bool terminal;
  bool to_end; /* stdin is read to its end, also when the run accepts no more input */
  bool dropped; /* the run accepts no more input */
  int64_t ended_at; /* -1: it has not ended */
  uint64_t sent, limit;
};

void input_open(struct input *input, bool to_end);
bool input_wants(const struct input *input, const struct link *link);
void input_forward(struct input *input, struct link *link);
void input_close(struct input *input);

/* ---- exit-summary.c ---- */

struct exit_summary {
  int code;
  char message[8192]; /* empty: none */
};

/* Fills `out` from the exit.json of a run. False: Node must report the end. */
bool describe_exit(struct json_value exit, const struct options *options, const struct output outputs[STREAMS], int interrupt,
                     struct exit_summary *out);

/* ---- follow-run.c ---- */

/* Follows a run to its end. Returns the exit code. */
int follow_run(struct gateway *gateway, const struct options *options, const char *run_id, const char *directory);
/* Prints the effect of an interrupt. */
void say_interrupt(void);

#endif
