/* One binary, several modes: docs/reference/anchor-protocol.md. */
#include <stdio.h>
#include <string.h>

#include "modes/modes.h"
#include "format/parse-number.h"
#include "os/os.h"

static const char usage[] =
    "anchor launch --dir DIR --instance ID   start anchors and supervise them\n"
    "anchor run RUN --dir DIR --fd N         supervise one run (started by the launcher)\n"
    "anchor inspect [--brief | --ports]      identities and evidence, for pids, cgroups and ports on stdin\n"
    "anchor reap --pid N --start N ...       verify an identity and end its tree\n"
    "anchor reap ... --anchor-pid N ...      end a run whose anchor does not answer, and the anchor\n"
    "anchor continue --pid N --start N ...   verify an anchor and send it SIGCONT\n"
    "anchor reap --only --pid N ...          verify one process by its marker and end only it\n"
    "anchor marked NAME [OTHER...]           list processes with this variable in their environment\n"
    "anchor limits                           report which limits can be set from here\n"
    "anchor survey                           list launchers, anchors and cgroups of runs of all state directories\n"
    "anchor supervisors                      list supervisors of all state directories\n"
    "anchor lock                             lock the directory open as descriptor 3; the caller keeps the lock\n"
    "anchor init -- COMMAND...               PID 1 of a container\n";

static const char *option(int argc, char **argv, const char *name) {
  for (int i = 0; i + 1 < argc; i++)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  return NULL;
}

static bool flag(int argc, char **argv, const char *name) {
  for (int i = 0; i < argc; i++)
    if (strcmp(argv[i], name) == 0) return true;
  return false;
}

int main(int argc, char **argv) {
  argv = os_arguments(&argc, argv);
  if (argc > 0 && strcmp(os_file_name(argv[0]), "holdfast") == 0) return client_mode(argc, argv);
  const char *mode = argc > 1 ? argv[1] : "";
  int rest = argc - 2;
  char **words = argv + 2;
  if (!os_init()) {
    if (strcmp(mode, "launch") == 0) printf("{\"ready\":false,\"message\":\"%s\"}\n", os_init_problem);
    fprintf(stderr, "anchor: %s\n", os_init_problem);
    return 3;
  }
  bool brief = flag(rest, words, "--brief"), ports = flag(rest, words, "--ports");
  if (strcmp(mode, "inspect") == 0 && rest <= 1 && rest == brief + ports) return inspect_mode(brief, ports);
  if (strcmp(mode, "marked") == 0) return marked_mode(rest, words);
  if (strcmp(mode, "limits") == 0 && rest == 0) return limits_mode();
  if (strcmp(mode, "survey") == 0 && rest == 0) return survey_mode();
  if (strcmp(mode, "supervisors") == 0 && rest == 0) return supervisors_mode();
  if (strcmp(mode, "lock") == 0 && rest == 0) return lock_mode();
  if (strcmp(mode, "reap") == 0 && rest > 0 && strcmp(words[0], "--only") == 0) return reap_one_mode(rest - 1, words + 1);
  if (strcmp(mode, "reap") == 0) return reap_mode(rest, words);
  if (strcmp(mode, "continue") == 0) return continue_mode(rest, words);
  if (strcmp(mode, "init") == 0 && rest >= 2 && strcmp(words[0], "--") == 0) return init_mode(words + 1);
  const char *dir = option(rest, words, "--dir");
  if (strcmp(mode, "launch") == 0 && dir != NULL && option(rest, words, "--instance") != NULL)
    return launch_mode(dir, option(rest, words, "--instance"), argv[0], (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]));
  const char *connection = option(rest, words, "--fd");
  uint64_t fd;
  if (strcmp(mode, "run") == 0 && rest >= 5 && dir != NULL && connection != NULL && number_within(connection, INT32_MAX, &fd)) {
    const char *note = option(rest, words, "--note");
    return run_mode(words[0], dir, (int)fd, option(rest, words, "--cgroup"), note != NULL ? note : "",
                    flag(rest, words, "--launched"));
  }
  fputs(usage, stderr);
  return 2;
}
