import { HoldfastError, SessionError } from "./base.js";

/** An open session that differs from the requested one has the key. */
export class SessionTaken extends HoldfastError {
  readonly key: string;
  constructor(key: string, why: string) {
    super("SESSION_TAKEN", `session key ${key} is taken: ${why}; no session was opened`);
    this.key = key;
  }
}

export class SessionClosed extends SessionError {
  constructor(sessionId: string) {
    super("SESSION_CLOSED", sessionId, `session ${sessionId} is closed; nothing was sent or started`);
  }
}

/** A command of the session's agent is running. */
export class SessionBusy extends SessionError {
  readonly runId: string;
  constructor(sessionId: string, runId: string) {
    super(
      "SESSION_BUSY",
      sessionId,
      `session ${sessionId} already works on a prompt (${runId}), and accepts one at a time; nothing was started`,
    );
    this.runId = runId;
  }
}

/** The session has reached its limit of waiting messages. */
export class InboxFull extends SessionError {
  constructor(sessionId: string, limit: number) {
    super(
      "INBOX_FULL",
      sessionId,
      `${limit} messages already wait for session ${sessionId}; this one was not sent`,
    );
  }
}

/** The stored records of a session have reached their size limit. */
export class SessionStorageFull extends SessionError {
  constructor(sessionId: string, limit: number) {
    super(
      "SESSION_STORAGE_FULL",
      sessionId,
      `the records of session ${sessionId} have reached the limit of ${limit} bytes; nothing was started. Try again when old records of ended runs and tasks have been removed, or use another session`,
    );
  }
}

/** A reported change of a task comes too late or too early. The task's events record the refusal. */
export class TaskRefused extends HoldfastError {
  readonly taskId: string;
  readonly why: "ended" | "not-started";
  constructor(taskId: string, status: string, why: "ended" | "not-started") {
    super(
      "TASK_REFUSED",
      why === "ended"
        ? `task ${taskId} has ended (${status}), which is final; nothing was changed`
        : `task ${taskId} has not started, so it cannot have ended; nothing was changed`,
    );
    this.taskId = taskId;
    this.why = why;
  }
}

/** The session has reached its limit of waiting approvals. */
export class TooManyApprovals extends SessionError {
  constructor(sessionId: string, limit: number) {
    super(
      "TOO_MANY_APPROVALS",
      sessionId,
      `session ${sessionId} already waits for ${limit} approvals; this one was not requested and nothing was started`,
    );
  }
}

/** An exec rule or an operator denied the command of a session. */
export class ExecDenied extends HoldfastError {
  constructor(why: string) {
    super("EXEC_DENIED", `the command was not allowed: ${why}; nothing was started`);
  }
}
