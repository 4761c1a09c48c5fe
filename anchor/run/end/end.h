/* The end of a run: its processes are found, asked to end, killed and counted, until none is left; then the end is recorded. */
#ifndef RUN_END_H
#define RUN_END_H

#include "run/run.h"

/* members.c */
/* Fills `members` with all processes of this run and returns their number. Each is sent the signal at the moment it
 * is found. */
long collect(struct run *run, int signal);
/* Makes `members` the known ones of the run. */
void save_members(struct run *run, long count);
bool is_known(const struct run *run, os_pid pid);
/* True if no other run has processes below this anchor. */
bool is_only_run(const struct run *run);
/* With other runs below this anchor, only collecting the members shows whether this run is empty. */
enum emptiness tree_emptiness(struct run *run);
/* True unless the last answer was UNSEEN and it is too early to ask again. */
bool may_ask_emptiness(const struct run *run);
/* Takes an answer. A run is empty if that is proven, or if no process was found and more asking does not help. */
void take_emptiness(struct run *run, enum emptiness found);
void check_emptiness(struct run *run, uint64_t now);
/* Polls new members while their parents are alive, where only ancestry identifies them. */
void refresh_members(struct run *run, uint64_t now);

/* residue.c */
/* Records once which processes outlived the leader. */
void record_leader_residue(struct run *run, long count);
/* Records each process once; a later call may correct its kind. */
void record_residue(struct run *run, const struct member *member, const char *kind, bool fresh);
/* The kind of a process that survived KILL. */
const char *why_alive(const struct run *run, const struct member *member);
/* Counts the processes besides the leader that are ended by TERM or KILL. */
void count_cleaned(struct run *run, long count);
/* Adds an unlisted process to `members`, with pid 0. */
long count_unlisted(struct run *run, long count);
void report_survivors(struct run *run, long count);
void out_json(struct run *run, struct out *out, const void *text);

/* reap.c */
/* Reaps, and checks which runs are empty. */
void reap_children(void);
/* Reaps zombies only. */
void reap_zombies(void);

/* terminate.c */
void request_stop(struct run *run, const char *reason, const char *actor, const char *request, uint64_t grace);
void save_stop(struct run *run);
void begin_termination(struct run *run, uint64_t now);
void sweep(struct run *run, uint64_t now);

/* abandon.c */
/* False: there are no survivors to abandon. */
bool request_abandon(struct run *run, const char *actor, const char *request);
/* The residue of this end lists only the survivors. If they died meanwhile, the run ends like any other. */
void abandon_survivors(struct run *run, uint64_t now);

/* exit-file.c */
/* Writes leader.json: if the anchor dies while output is drained, the status is known. */
void save_leader_file(struct run *run);
/* Writes the exit file and ends the run, or stays and tries again. */
void write_end(struct run *run, uint64_t now);

/* release.c */
/* Ends this run, and this process if it was the last run. */
void finish_run(struct run *run);
/* Releases abandoned runs without live processes, or all of them if the anchor exits. */
void release_abandoned_runs(bool leaving);

#endif
