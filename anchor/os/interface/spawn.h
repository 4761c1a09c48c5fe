/* The child that waits at the gate. */
#ifndef OS_SPAWN_H
#define OS_SPAWN_H

#include "os/interface/boundary.h"

struct child_spec {
  char *const *argv;
  char *const *env;
  const char *cwd;
  bool set_umask;
  uint32_t umask;
  bool pty, merge, stdin_null;
  bool verbatim; /* only Windows: the words after the first are not quoted for the command line */
  /* The child is forked before the command is known: it has pipes, and reads the rest of this when the gate opens. Then this is
   * in memory of os_map_shared. Only where os_starts_warm. */
  bool late;
  unsigned short rows, cols;
};

/* A child that has done everything except exec, and waits at the gate. */
struct child {
  struct identity id;
  int gate;             /* see os_gate_open; -1: used or discarded */
  int status;           /* readable when os_child_report has something */
  int in, out, err;     /* our ends; -1 if there is none. With a PTY: in == out == master */
  int slave;            /* of a PTY, kept open so that the kernel keeps the output */
};

struct child_report {
  int step, error;
};
/* The steps in order; `none` in a report means ready at the gate. */
enum step { STEP_NONE, STEP_DIRECTORY, STEP_BOUNDARY, STEP_PTY, STEP_STDIO, STEP_FORK, STEP_SESSION, STEP_CWD, STEP_EXEC, STEP_SPEC, STEP_LIMIT };
extern const char *const step_names[];

/* Forks the child, whose first report comes on `status`. Returns the step that failed (errno set) or STEP_NONE. */
enum step os_spawn_gated(const struct child_spec *spec, const struct boundary *boundary, struct child *out);
/* True if a child may be forked before its command is known. */
extern const bool os_starts_warm;
/* Lets the child run the command. */
void os_gate_open(struct child *child);
/* Closes the gate: the child exits. */
void os_gate_discard(struct child *child);
/* Takes the child's next report: first that it is at the gate or failed before; after that only why the command could not
 * be executed. 1: a report; 0: none now; -1: no more will come, so after the gate was opened the command runs. */
int os_child_report(struct child *child, struct child_report *out);
/* The terminal of a child has another size; its processes are told. */
void os_terminal_resize(const struct child *child, uint16_t rows, uint16_t cols);
/* Types the end of input. `line_open`: the last byte did not end a line. False: there is no room now. */
bool os_terminal_end_input(const struct child *child, bool line_open);
/* Kills a child that must not run, and reaps it. */
void os_kill_gated_child(struct child *child);
/* True if it is our only child: if it is a zombie, the tree is empty. False if it cannot be determined. */
bool os_only_child(os_pid pid);

#endif
