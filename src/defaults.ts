/** Every default number of the product, each with its reason. Milliseconds and bytes unless the name says otherwise. */
export const defaults = {
  /** TERM to KILL. Five seconds is what the field uses; most agents need up to two to shut down. */
  graceMs: 5_000,
  /** How long processes that outlived their leader may finish by themselves before they are residue. Shell pipelines and helpers end within a few ms of their parent. */
  settleMs: 100,
  /** Output that is still in flight when the tree is empty. It is all in kernel buffers by then; this bounds a pipe held by a stranger. */
  drainMs: 2_000,
  /** After KILL, when to tell the waiting caller who is still there. A killed process that can die does so within milliseconds. */
  killReportMs: 2_000,
  /** A task without an owner: long enough for a gateway restart or upgrade. */
  ownerLossMs: 120_000,
  /** A foreground `holdfast run` hosts its own supervisor; nobody will come back for it. */
  foregroundOwnerLossMs: 2_000,
  /** A foreground run without a gateway: its caller starts one within seconds, or waits for one this long. */
  callerOwnerLossMs: 30_000,
  /** A caller whose connection broke comes back at once, if it lives. */
  callerGraceMs: 2_000,
  /** After its gateway was restarted, or before it has connected at all: it may have to start up, on a loaded machine. */
  callerReturnMs: 10_000,
  /** When a gateway is killed, somebody else may be starting the next one; after this the caller does. */
  gatewayBackMs: 1_000,
  /** Pause between attempts of a caller to start a gateway; doubles. The maximum is below callerReturnMs, in which the next gateway expects the caller. */
  gatewayRetryMs: 250,
  gatewayRetryMaxMs: 5_000,
  /** How long a caller tries to start a gateway once no anchor answers for its run. A longer outage needs an operator. */
  callerHoldMs: 600_000,
  /** A gateway that lives but does not hold the run yet is asked again after this, doubling: it may be taking up hundreds. */
  callerAgainMs: 20,
  callerAgainMaxMs: 1_000,
  /** A gap that a person notices; a shorter one is not worth a line in a log. */
  gatewayGapMs: 2_000,
  /** Of each stream, on its way to a foreground caller that has not written it yet. */
  callerWindowBytes: 1024 * 1024,
  /** The anchor enforces a deadline itself this long after the owner should have: an owner that is stopped must not make a run immortal. */
  backstopMs: 2_000,
  /** Lease: renewed three times before it expires; far above the worst wait for a busy store. */
  leaseMs: 30_000,
  renewMs: 10_000,
  /** Interval at which a supervisor checks its own locks; a check costs two stat calls. A deleted lock file protects nothing until the next check. */
  lockLookMs: 1_000,
  /** A supervisor that could not renew stops steering here, well before the lease expires. */
  selfFenceMs: 20_000,
  /** An owner that is alive but has not renewed for ten leases is stuck for good; its runs may be taken. */
  stalledOwnerMs: 300_000,
  /** Of a stalled owner's lease, how long a supervisor must have been awake and seen it so: after a sleep, or an outage, everybody wakes to expired leases, and each owner renews its own within this. */
  stalledWatchMs: 30_000,
  /** A run on a machine or in a container that nothing is heard of: a day covers a night's power cut and a weekend's patience. */
  hostLostMs: 24 * 3_600_000,
  /** Between two looks for hosts that have been silent for so long, which reads every open run: a day more or less ten minutes is a day. */
  silentLookMs: 600_000,
  /** Between two looks at runs without an owner: a lease lives three times as long. */
  reconcileMs: 10_000,
  /** Ended runs: a week, as the field keeps them, and never so many that listing them is slow. */
  endedKeptMs: 7 * 24 * 3_600_000,
  endedKept: 10_000,
  /** Sessions that were closed: as long as the runs they had. Questions that were answered: a month of who allowed what. */
  sessionsKeptMs: 7 * 24 * 3_600_000,
  approvalsKeptMs: 30 * 24 * 3_600_000,
  /** What was said in sessions: as long as who allowed what. */
  messagesKeptMs: 30 * 24 * 3_600_000,
  /** Of one session: months of talk, and small enough for a thousand sessions on a laptop. */
  historyBytes: 8 * 1024 * 1024,
  historyMessages: 10_000,
  /** Of one message: the text of a turn that is kept (acpTextChars), and below what one request may bring. */
  messageChars: 1_000_000,
  /** Messages that wait for a session: an agent that is away for so many will not read them. */
  inboxMessages: 100,
  /** Output of ended runs in all: 256 full spools of both streams fit. */
  outputKeptBytes: 4 * 1024 * 1024 * 1024,
  /** Between two rounds of forgetting. */
  retainMs: 600_000,
  /** Bytes kept per stream. About 40 times what agents show, small enough for 500 runs on a laptop. */
  spoolBytes: 8 * 1024 * 1024,
  /** One output event per run at most this often: enough to see life, few enough to keep. */
  outputHeartbeatMs: 5_000,
  /** Events kept in the store of one state directory; the oldest go first. Some 30 MB, and an hour of 100 busy runs. */
  eventsKept: 100_000,
  /** Terminal size when nobody says. */
  rows: 24,
  cols: 80,
  /** Wait for a busy store this long: above any transaction of ours, below the lease. */
  storeBusyMs: 5_000,
  /** Time to connect to each of several database hosts, or its share of the time above if that is more. A reachable host answers in milliseconds, and the next host must be tried before the lease is in danger. */
  storeHostConnectMs: 1_000,
  /** A SQLite file that another process has locked is tried again after this, doubling: a transaction takes well under a millisecond, and 20 attempts a second cost nothing while a lock stays. */
  storeLockRetryMs: 1,
  storeLockRetryMaxMs: 50,
  /** Connections of one supervisor to PostgreSQL, or of a gateway but for the one that listens: statements take a millisecond, and a server has a hundred for everybody. */
  storeConnections: 4,
  /** All but one of them are closed after this: below what lies between two rounds, or rest would look like work. */
  storeIdleMs: 3_000,
  /** Other supervisors write events to the same file without telling: this is how late they are noticed. */
  eventLookMs: 200,
  /** A look at the events all the same, when no wake-up has come: it may have been lost with a connection. */
  eventPollMs: 5_000,
  /** Starting a launcher is an exec and a bind; ten seconds is a machine in trouble. */
  launcherReadyMs: 10_000,
  /** A live anchor answers within a millisecond, a starved one within a second or two; one that is stopped or held by a debugger does not. */
  anchorAnswerMs: 4_000,
  /** After SIGCONT: it runs at once, and has its messages waiting. */
  anchorContinueMs: 2_000,
  /** A connected anchor that has said nothing for this long is asked how it is: a stopped one is noticed within a quarter of a minute, and 500 silent runs cost 50 small messages a second. */
  anchorAskMs: 10_000,
  /** Everything that stops a run answers within this, grace included: what is left then is named. */
  stopBoundMs: 20_000,
  /** An anchor tells its members in a millisecond; one that is stopped does not, and is looked at from outside. */
  membersMs: 2_000,
  /** After an anchor died, how long the launcher may take to kill what it left and say so. It kills a thousand processes in well under a second. */
  sweptWaitMs: 3_000,
  /** How often to look for the launcher's word: it comes within a few milliseconds, and a look is one failing open. */
  sweptPollMs: 20,
  /** A lost connection to a live anchor is retried this often, with growing pauses (about 6 s in all): it looks after its socket every 5 s. */
  reattachTries: 8,
  reattachPauseMs: 25,
  /** A write the store refused is repeated after this, doubling up to the second: quick after a lock, gentle on a full disk. */
  storeRetryMs: 50,
  storeRetryMaxMs: 5_000,
  /** A caller that waits for a run's end is answered this long after the end if the record is not written by then. A commit takes milliseconds, and a person notices two seconds. */
  recordWaitMs: 1_500,
  /** A gateway that starts while its database is away asks again after this, doubling: soon after a restart, gently through a long one. Spread by half, so that many hosts do not come at once. */
  storeAwayRetryMs: 250,
  storeAwayRetryMaxMs: 10_000,
  /** How a store answers that can: a gateway that is asked how it is waits no longer for one that may not. */
  storeAnswerMs: 1_000,
  /** How long to wait for the store if this host knows the answer, too: three such waits and the work stay below a second. */
  localAnswerMs: 250,
  /** The same for lists. It is longer, because a busy server takes longer to list, and the local list lacks the runs of other hosts. */
  localListMs: 500,
  /** Pause before a store that did not answer is asked again; until then answers come from this host at once. */
  localRetryMs: 2_000,
  /** A statement that fails after this time or later shows that the server hangs: further statements fail at once until it answers again. */
  storeHangMs: 1_000,
  /** Between two attempts to reach a server that hangs. */
  storeProbeMs: 250,
  /** How long a statement waits for a probe of a server that hung: a server that works again answers within this time. */
  storeReopenMs: 150,
  /** Ends kept beside a shared store, in case it is put back to before them: a nightly backup, and far more than a host ends in an hour. */
  ledgerEndsKeptMs: 24 * 3_600_000,
  ledgerEndsKept: 1_000,
  /** The same for ended tasks and made deliveries: a record takes one or two kilobytes of memory. */
  ledgerTasksKept: 5_000,
  /** After a server was replaced, messages that other gateways may have delivered wait this long: each gateway compares its records every 10 s, and again if the task was put back by then. */
  outboxDoubtMs: 20_000,
  /** Events of a task's history that are kept besides its beginning and end: as many as a person reads. */
  ledgerTaskEventsKept: 20,
  /** When the leader is gone, the end usually follows within a millisecond; only a longer wait is worth recording as `exiting`. */
  exitingNoteMs: 20,
  /** Beyond grace, kill report and drain: what close() allows for the last messages to arrive. */
  closeSlackMs: 2_000,
  /** Records looked into at the same time after a restart: sockets and files, so a few dozen keep everything busy. */
  recoverAtOnce: 32,
  /** One read of a follower: large enough that the disk, not the loop, is the limit. */
  followBytes: 256 * 1024,
  /** One WRITE frame: half of what a frame may be. */
  stdinFrameBytes: 64 * 1024,
  /** A service that does not listen by then is taken for broken: a cold build of a large dev server stays below. */
  readyTimeoutMs: 60_000,
  /** Between two looks for its port, growing: nobody tells when a process begins to listen, and a look costs a process. */
  readyLookMs: 20,
  readyLookMaxMs: 500,
  /** exec: when to stop waiting for the end and let the run go on in the background, and how long it may run at all. As the field has it. */
  execYieldMs: 10_000,
  execTimeoutMs: 1_800_000,
  /** Of each stream in one answer; what agents are given elsewhere. */
  execOutputChars: 200_000,
  /** A request to the gateway: an environment of a megabyte and as much input fit. */
  requestBytes: 4 * 1024 * 1024,
  /** Of a run's input, waiting for its program: four of the largest requests, and a gateway holds many runs. */
  inputWaitingBytes: 16 * 1024 * 1024,
  /** From one caller: far above what a person or an agent does, far below what holds the others up. */
  requestsPerSecond: 500,
  requestBurst: 2_000,
  /** Limit of the connections of all sessions, and of connections before their first request: twice a thousand followers. */
  connections: 2_048,
  /** Connections of one session: as many as its unanswered requests. */
  sessionConnections: 512,
  /** Unanswered requests of one session, including those that wait for a command: more than many agents need for parallel tools. */
  sessionRequests: 512,
  /** Open streams of one session (events, updates, attached terminals): each costs work with every event. */
  sessionStreams: 64,
  /** Bytes of one session's requests, and of answers that it has not read yet: sixteen of the largest requests. */
  sessionBytesHeld: 64 * 1024 * 1024,
  /** Requests of all sessions that are handled at the same time: more than the connections to the database, so that all connections are in use. */
  sessionsWorking: 16,
  /** A request that takes longer is assumed to wait for something else, and no longer occupies a slot. */
  sessionSlotMs: 50,
  /** How long a request of the operator delays the work of sessions: most requests are answered by then; the rest wait for something else. */
  operatorFirstMs: 100,
  /** Meanwhile one request of a session is started per interval: each takes a few milliseconds, so most of the time is the operator's. */
  sessionPaceMs: 10,
  /** Pause between two reads of new events for a session's stream: hardly noticeable, and few reads during a flood of events. */
  followPauseMs: 25,
  /** Records of one session (runs with their labels, tasks): 10,000 runs with typical labels take 20 MB. */
  sessionStoredBytes: 128 * 1024 * 1024,
  /** How old the size of a session's records may be: it is counted in the store, which takes milliseconds. */
  sessionStoredLookMs: 60_000,
  /** Largest page of a list: a thousand typical records take 1.5 MB. */
  listBytes: 2 * 1024 * 1024,
  /** Labels of a run: tools set a handful of short ones. The limit on the size of all keys and values keeps a list of 1,000 runs readable. */
  labels: 64,
  labelKeyChars: 128,
  labelValueChars: 1_024,
  labelsBytes: 16 * 1024,
  /** A caller that has not finished saying what it wants by then never will. */
  requestMs: 30_000,
  /** To another gateway: name, connection and handshake take two round trips; five seconds is a host that is away. */
  peerConnectMs: 5_000,
  /** Whoever works on another gateway's request says so this often; three times unheard, the connection is given up. */
  peerLifeMs: 5_000,
  peerSilentMs: 15_000,
  /** Connections to the peer port without a completed handshake: enough for a burst of many peers, at little memory. Beyond it, the oldest one of the address with the most is closed. */
  peerStrangers: 256,
  /** Between two looks at what others have handed over, when no word of it has come. */
  commandLookMs: 5_000,
  /** A gateway that lives takes up a command within one look; who does not by then may be away for long. */
  commandAcceptMs: 6_000,
  /** Gateways that are not heard of: as long as the runs they had. */
  gatewaysKeptMs: 7 * 24 * 3_600_000,
  /** Commands: as long as the runs they were about. */
  commandsKeptMs: 7 * 24 * 3_600_000,
  /** A gateway listens within half a second of its start; this is a loaded machine with many runs to take up. */
  gatewayReadyMs: 30_000,
  /** A gateway says how it is within milliseconds, and within a second when its store is slow; one that takes longer hangs. */
  gatewayAnswerMs: 5_000,
  /** Between two looks of a gateway at its socket: one that is deleted is back before a person has tried twice. */
  socketCheckMs: 2_000,
  /** A gateway whose socket is missing makes it again within this; only then is it taken for one that hangs. */
  gatewayRebindMs: 5_000,
  /** Time between SIGTERM and SIGKILL for a gateway that hangs. Runs survive a killed gateway. */
  gatewaySignalGraceMs: 10_000,
  /** One request of a reading command to a gateway that answered a moment ago: a page of a long log on a loaded machine. */
  gatewayReadMs: 10_000,
  /** Of `stopBoundMs`, what a command keeps for stopping without the gateway: the default grace, the kill report, and a second to look. */
  stopDirectMs: 8_000,
  /** Of `stopBoundMs`, what `gateway stop --runs terminate` keeps for ending a gateway that hangs: two seconds of grace, and the kill report. */
  gatewayEndMs: 4_000,
  /** Part of `stopBoundMs` that a command reserves for its start, its report and its exit. */
  stopReportMs: 1_000,
  /** The gateway's log: five files of ten megabytes hold weeks. */
  logBytes: 10 * 1024 * 1024,
  logFiles: 5,
  /** Of a command line, kept for display: enough to recognise any of them, little enough for a table and a record. */
  displayCommandChars: 500,
  /** Characters of a question to the operator in one answer of the API: a few screens. Below: characters of one text, before it continues in another piece. */
  questionPageChars: 64 * 1024,
  questionPieceChars: 16 * 1024,
  /** Lines above a screen that are kept for who attaches: what people scroll back to. 80 columns of them are 1 MB. */
  scrollbackLines: 1_000,
  /** A larger terminal is shown cut to this: larger than any monitor's, and 1,400 lines of 500 cells are 8 MB. */
  screenMaxRows: 400,
  screenMaxCols: 500,
  /** Screens drawn and kept for the next look: more than an agent drives at a time, and 8 MB each at most. */
  screensKept: 16,
  /** A title is one line of a list; a longer one is no title. */
  titleChars: 1_000,
  /** Answers that nobody takes: a program asks once at its start, a few dozen bytes. */
  screenRepliesBytes: 4 * 1024,
  /** Output given to a screen that it has not drawn yet: a few reads of a follower. Who does not wait meets this. */
  screenPendingBytes: 4 * 1024 * 1024,
  /** One read of a log: a segment of a spool has many, and a page of 200 lines fits in one. */
  logChunkBytes: 64 * 1024,
  /** Of a line, shown: far beyond what people write in one, so only data and loops are cut. */
  logLineBytes: 16 * 1024,
  /** Of a page, shown: what a client holds with ease, and 60 of the longest lines. */
  logPageBytes: 1024 * 1024,
  /** Lines of a page: empty ones cost, too. */
  logPageLines: 10_000,
  /** Silence after which a program that shows no prompt may still be waiting for input: builds and tests pause less. */
  waitingIdleMs: 15_000,
  /** Silence after a prompt: a program that goes on by itself does so at once. */
  waitingPromptIdleMs: 1_000,
  /** A person who is asked has this long to answer: an agent waits meanwhile, and its own request must not hang for ever. */
  approvalMs: 300_000,
  /** Questions of one session that wait at the same time: more than an agent's parallel tools, few enough for a person to read. */
  approvalsPending: 32,
  /** News of approvals that a follower has not read yet: one that is so far behind reads no more, and is let go. */
  approvalsUnread: 1_000,
  /** Of a one-shot agent's output, kept to be read when it has ended: the largest seen were a few MB of JSON. */
  agentSpoolBytes: 32 * 1024 * 1024,
  /** An agent's command that has not printed its version by then waits for something else. Node agents take one to three seconds. */
  agentVersionMs: 20_000,
  /** Time to search a PATH that a caller gave: local directories take milliseconds, and a CLI waits for the answer. */
  agentPathMs: 2_000,
  /** Directories of such a PATH: the longest one seen, in a Nix shell, had about 150. */
  agentPathDirectories: 512,
  /** Queued requests with a PATH: there are more only if a directory does not answer. */
  agentPathWaiting: 16,
  /** Of what an agent's command wrote to stderr, kept with why it failed. */
  agentComplaintChars: 2_000,
  /** A receiver of notifications that has not answered by then is away: those that live answer within a second. */
  channelAnswerMs: 10_000,
  /** A program that tells somebody may have to start a runtime and reach a server of its own. */
  channelProgramMs: 20_000,
  /** What either may be given at most: one attempt to deliver has half a minute in all. */
  channelMostMs: 25_000,
  /** Of an answer: the Bot API's are below a kilobyte; who says more says nothing that is needed. */
  channelAnswerBytes: 64 * 1024,
  /** Of an answer, or of what a program complained about, said in why a notification did not arrive. */
  channelExcerptChars: 200,
  /** Between two signs that an agent is at work: Telegram shows one for five seconds. */
  typingEveryMs: 4_500,
  /** After one that did not arrive: nobody waits for it, and a receiver in trouble has enough to do. */
  typingPauseMs: 60_000,
  /** Of each text of a notification, handed on: far above what a person reads in one. */
  channelTextChars: 16_000,
  /** Telegram refuses longer messages; Slack recommends no longer ones. */
  telegramTextChars: 4_096,
  slackTextChars: 4_000,
  /** A desktop shows a few lines. */
  desktopTextChars: 1_000,
  /** What a receiver may ask for before the next try: beyond a day nobody waits for it. */
  channelRetryAfterMs: 24 * 3_600_000,
  /** One frame of an ACP agent: what the protocol's own library takes; the largest seen was 5 MB. */
  acpFrameBytes: 32 * 1024 * 1024,
  /** Of an ACP agent's output, kept until its effects are: a frame is acknowledged whole, so the largest must fit, and a follower's read. */
  acpSpoolBytes: 33 * 1024 * 1024,
  /** Frames handled together, at most: one commit for many, and few enough to be forgotten if it fails. */
  acpBatchFrames: 1_000,
  /** Lines that are no frames, forgiven: stray prints are a few, and a program that is no agent soon has so many. */
  acpMalformedLines: 1_000,
  /** Of such a line, and of an agent's error, shown. */
  acpExcerptChars: 200,
  /** Of an agent's stderr: enough for the stack trace it ends with. One line of it, at most. */
  acpStderrBytes: 16 * 1024,
  acpStderrLineBytes: 2 * 1024,
  /** Node agents speak within two seconds; a cold disk and a package runner need longer. */
  acpInitializeMs: 60_000,
  /** A session starts its tool servers first. */
  acpNewSessionMs: 120_000,
  /** Silence of a turn, with nobody asked: a model that thinks is heard of within minutes. */
  acpNoFramesMs: 600_000,
  /** Most agents leave within 170 ms of the end of their input, some need two seconds. */
  acpLeaveMs: 3_000,
  /** Of a turn, kept in memory: its newest text (a book is a million characters), and what it thought and did. */
  acpTextChars: 1_000_000,
  acpThoughtChars: 4_000,
  acpToolCalls: 1_000,
  acpPlanEntries: 100,
  acpRawUpdates: 32,
  /** Of a turn's updates, kept in the store: a long day's work with its tools is a few megabytes; a flood is no work. */
  acpTurnBytes: 16 * 1024 * 1024,
  /** Of a page of updates: many of the usual ones, and one of the largest does not fill the memory a thousand times. */
  acpPageBytes: 1024 * 1024,
  /** Updates of turns that ended longer ago are forgotten; what came of the turns stays with the session. */
  acpUpdatesKeptMs: 7 * 86_400_000,
  /** Prompts of one session that wait for their turn: more than a person or an agent loses count of. */
  acpQueued: 32,
  /** Of what an agent asks leave for, judged by its rules and kept to be shown: longer than anybody reads before a yes. And of its answers. */
  acpAskedChars: 16 * 1024,
  acpAskedOptions: 32,
  /** Characters of the details that agents of one session give about tool calls, kept in memory while the questions wait: one whole frame. */
  acpDetailChars: 32 * 1024 * 1024,
  /** In one turn, of us and of people: a day's work asks for thousands of tools; an agent that asks on and on ends here. */
  acpQuestions: 10_000,
  /** A cancel is answered within 306 ms by those that answer it; this is one that tidies up first, on a loaded machine. */
  acpCancelMs: 10_000,
  /** Tools that are told to leave have this long. */
  acpToolGraceMs: 2_000,
  /** `session/close` and `session/delete`: a courtesy; what counts is the end of the processes. */
  acpCloseMs: 5_000,
  /** How long a prompt may be: what a request to the gateway holds. */
  acpPromptChars: 1_000_000,
  acpRawUpdateBytes: 64 * 1024,
  /** Of a file that an agent reads or writes through us: JSON may need six times as much, and a frame has 32 MiB. */
  acpFileBytes: 4 * 1024 * 1024,
  /** Terminals of one agent that it has not released: more than a person or a model keeps apart. */
  acpTerminals: 16,
  /** Of a command and its variables: more than one word may have for the kernel, and looked through for secrets within 100 ms. */
  acpCommandChars: 512 * 1024,
  /** Of a terminal's output, at most and when the agent does not say: a model reads far less. */
  acpTerminalBytes: 1024 * 1024,
  /**
   * Of what waits for a session, told to its command with a prompt: that may have to stand on a command line. Also of
   * what is told to an agent again, which may have been too much for it.
   */
  agentCarriedChars: 16_000,
  /** Of a task's history, beside how it began and ended: what a person reads through. */
  taskEventsKept: 100,
  /** What a task is called, its progress: a line of a table each. What came of it: a page, and what a chat takes as one message. */
  taskLabelChars: 120,
  taskProgressChars: 240,
  taskSummaryChars: 4_000,
  taskErrorChars: 1_000,
  taskTextChars: 16_000,
  /** Of the result, in a message: what is read on a telephone without scrolling. The whole of it is in the record. */
  taskNoticeChars: 1_000,
  /** A name that a caller gives to its work. */
  taskKeyChars: 200,
  /** Messages about changes of one task keep this distance: one a minute can be read, more are a nuisance. */
  taskStateNoticeMs: 60_000,
  /** Between two lines of progress in a task's record: each is a write to the disk. */
  taskProgressMs: 5_000,
  /** Work that was not heard of for so long is said to stall: longer than a build or a model's thoughts are silent. */
  taskStallMs: 600_000,
  /** Between two looks at all tasks that are open. */
  taskSweepMs: 60_000,
  /** A task whose run or session is gone for so long is lost: whoever takes over a run does so in less. */
  taskLostMs: 300_000,
  /** Tasks that ended longer ago are forgotten: as long as the runs they were about. */
  taskKeptMs: 7 * 86_400_000,
  /** Work that has not begun by then waits for something that may never come; work that was not heard of may hang. */
  taskStaleQueuedMs: 600_000,
  taskStaleRunningMs: 1_800_000,
  /** Between attempts to deliver a message: a receiver that restarts is back after the first, one that is down is not asked too often. */
  deliveryRetryMs: 15_000,
  deliveryRetryMostMs: 300_000,
  /** In all: who could not be reached for so long needs a person. */
  deliveryInAllMs: 1_800_000,
  /** Attempts whose makers were gone before they could say what came of them: more restarts than one message meets by chance. */
  deliveryUnheardMost: 20,
  /** One attempt: a receiver answers within a second or two, a busy one within ten. */
  deliveryMs: 30_000,
  /** Nobody else sends a message for so long: an attempt, and time to say what came of it on a loaded machine. */
  deliveryLeaseMs: 60_000,
  /** Messages that are sent at the same time: receivers are waited for, not computed. */
  deliveriesAtOnce: 16,
  /** A receiver that takes longer is in trouble, or far: it gets no more than half of these, so that others do not wait for it. */
  deliverySlowMs: 2_000,
  /** Between two looks for messages that somebody else has left behind. */
  deliveryLookMs: 15_000,
} as const;

/**
 * No-output limit for CLI agents: clamp(ratio × overall timeout, min, max), at least `floorMs`,
 * at most the timeout less a second. A resumed agent has its context and speaks sooner.
 */
export const watchdogProfiles = {
  fresh: { ratio: 0.8, minMs: 180_000, maxMs: 600_000 },
  resume: { ratio: 0.3, minMs: 60_000, maxMs: 180_000 },
} as const;
export const watchdogFloorMs = 1_000;
