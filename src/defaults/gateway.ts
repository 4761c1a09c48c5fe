/** Defaults of the gateway, its clients and its peers. */
export const gatewayDefaults = {
  /** How long a run waits for its foreground caller after the connection broke: a live caller reconnects at once. */
  callerGraceMs: 2_000,
  /** The same after a gateway restart, or before the caller has connected: it may have to start on a loaded machine. */
  callerReturnMs: 10_000,
  /** How long a caller waits for another process to start the next gateway before it starts one itself. */
  gatewayBackMs: 1_000,
  /** Pause between a caller's attempts to start a gateway; doubles. The maximum is below callerReturnMs, in which the next gateway expects the caller. */
  gatewayRetryMs: 250,
  gatewayRetryMaxMs: 5_000,
  /** How long a caller tries to start a gateway once no anchor answers for its run. A longer outage needs an operator. */
  callerHoldMs: 600_000,
  /** Pause before a caller repeats a request to a gateway that does not hold the run yet; doubles. The gateway may be attaching to hundreds of runs. */
  callerAgainMs: 20,
  callerAgainMaxMs: 1_000,
  /** A gap without a gateway that a person notices; a shorter one is not reported. */
  gatewayGapMs: 2_000,
  /** Bytes of each stream sent to a foreground caller that has not acknowledged them. */
  callerWindowBytes: 1024 * 1024,
  /** exec: when to stop waiting for the end and let the run continue in the background, and how long it may run in all. The same values as in other tools. */
  execYieldMs: 10_000,
  execTimeoutMs: 1_800_000,
  /** Characters of each stream in one answer, as in other tools for agents. */
  execOutputChars: 200_000,
  /** Size of a request to the gateway: an environment of a megabyte and as much input fit. */
  requestBytes: 4 * 1024 * 1024,
  /** Input of a run that waits for its program: four of the largest requests. A gateway holds many runs. */
  inputWaitingBytes: 16 * 1024 * 1024,
  /** Requests of one session: far above what an agent sends, far below what delays other callers. */
  requestsPerSecond: 500,
  requestBurst: 2_000,
  /** Requests of the operator, whose programs may start every command through the gateway: more than one core can answer. */
  operatorRequestsPerSecond: 10_000,
  operatorRequestBurst: 20_000,
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
  /** Largest page of a list: a thousand typical records take 1.5 MB. */
  listBytes: 2 * 1024 * 1024,
  /** Time to receive a whole request. */
  requestMs: 30_000,
  /** Connecting to another gateway (name, connection, handshake) takes two round trips; after five seconds the host is unreachable. */
  peerConnectMs: 5_000,
  /** Interval of the keepalive while a peer works on a request. After three missing ones the connection is closed. */
  peerLifeMs: 5_000,
  peerSilentMs: 15_000,
  /** Connections to the peer port without a completed handshake: enough for a burst of many peers, at little memory. Beyond it, the oldest one of the address with the most is closed. */
  peerStrangers: 256,
  /** Interval of the checks for work that a former gateway left, while they find none. What shows that there is some, an acquired run, makes them at once. */
  leftoverCheckMs: 60_000,
  /** Interval at which events are counted for the metrics, besides at each scrape: far below the time after which they are deleted. */
  metricsCountMs: 60_000,
  /** Interval and number of the samples for the dashboard's view of a day: 1,440 of about 100 bytes. */
  healthSampleMs: 60_000,
  healthSamplesKept: 1_440,
  /** Reconcile decisions that the dashboard shows: those of a start with many open runs are of interest one by one at most. */
  reconciledKept: 200,
  /** Interval of the check that the database user may write to every table, while it may. A refused write is noticed at once. */
  privilegeCheckMs: 60_000,
  /** Interval of the check for remote stops whose notification was lost. Not that of other jobs: at the same time they would open a second connection, with three statements. */
  commandPollMs: 11_000,
  /** Interval of the check for messages that other gateways stored for agents of this one. A gateway without an agent reads nothing. */
  inboxPollMs: 5_000,
  /** A live gateway accepts a remote stop as soon as it is notified; one that does not may be away for long. */
  commandAcceptMs: 6_000,
  /** Records of silent gateways are kept as long as their runs. */
  gatewaysKeptMs: 7 * 24 * 3_600_000,
  /** Remote stops are kept as long as their runs. */
  commandsKeptMs: 7 * 24 * 3_600_000,
  /** A gateway listens within half a second of its start; this is for a loaded machine with many runs. */
  gatewayReadyMs: 30_000,
  /** Creating a scope takes the user's systemd manager 20 ms; one that takes longer hangs, and the gateway starts without. */
  scopeMs: 5_000,
  /** A gateway answers a health check within milliseconds, and within a second if its store is slow; one that takes longer hangs. */
  gatewayAnswerMs: 5_000,
  /** Runs that `runs list` shows: a screen or two. */
  listedRuns: 100,
  /** Time to answer `ps` and `runs list`, which otherwise read the store: longer than a busy gateway takes, short enough to wait for. */
  gatewayViewMs: 2_000,
  /** V8's space for new objects. The default of 16 MB is filled by the start and then stays resident; 2 MB cost no measurable time. */
  gatewaySemiSpaceMb: 2,
  /** Interval at which a gateway checks its socket: a deleted one is back before a person has tried twice. */
  socketCheckMs: 2_000,
  /** A gateway creates a missing socket again within this time; only after it a gateway is considered hanging. */
  gatewayRebindMs: 5_000,
  /** Time for launchctl or schtasks, which may have to start the service that they ask. */
  serviceManagerMs: 30_000,
  /** Interval at which the end of a former service is polled. */
  serviceGonePollMs: 200,
  /** Time between SIGTERM and SIGKILL for a gateway that hangs. Runs survive a killed gateway. */
  gatewaySignalGraceMs: 10_000,
  /** One request of a reading command to a gateway that answered a moment ago: a page of a long log on a loaded machine. */
  gatewayReadMs: 10_000,
  /** Part of `stopBoundMs` that a command reserves for stopping without the gateway: the default grace period, the kill report, and a second to inspect. */
  stopDirectMs: 8_000,
  /** Part of `stopBoundMs` that `gateway stop --runs terminate` reserves for ending a gateway that hangs: two seconds of grace, and the kill report. */
  gatewayEndMs: 4_000,
  /** Part of `stopBoundMs` that a command reserves for its start, its report and its exit. */
  stopReportMs: 1_000,
  /** The gateway's log: five files of ten megabytes hold weeks. */
  logBytes: 10 * 1024 * 1024,
  logFiles: 5,
} as const;
