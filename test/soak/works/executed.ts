import { RecordedRun } from "./recorded-run.js";

/** A command in a terminal. */
export class TerminalWork extends RecordedRun {
  readonly kind = "PTY";

  protected async start(): Promise<void> {
    await this.world.client.exec({
      body: { ...this.common, pty: true },
    });
  }

  /** As its terminal shows it. */
  override get expected(): Buffer {
    return Buffer.from(super.expected.toString("latin1").replaceAll("\n", "\r\n"), "latin1");
  }

  protected get common() {
    const { argv, variables: env, runId, world } = this;
    return { argv, env, runId, cwd: world.files, background: true, onEscape: "sweep" as const, graceMs: 300 };
  }
}

/** A service, which a client stops or which ends by itself. */
export class ServiceWork extends RecordedRun {
  readonly kind = "service";

  protected async start(): Promise<void> {
    const { argv, variables: env, runId, world } = this;
    await world.client.exec({
      body: {
        argv,
        env,
        runId,
        cwd: world.files,
        kind: "service",
        background: true,
        onEscape: "sweep",
        graceMs: 300,
      },
    });
  }
}

/** A command in the background whose end is sent to a receiver. */
export class TaskWork extends RecordedRun {
  readonly kind = "task";

  protected async start(): Promise<void> {
    const { argv, variables: env, runId, world } = this;
    await world.client.exec({
      body: {
        ...{ argv, env, runId, cwd: world.files, background: true, onEscape: "sweep", graceMs: 300 },
        ...{ notify: "done_only", origin: { chat: "direct", channel: "hook", address: null } },
      },
    });
  }
}
