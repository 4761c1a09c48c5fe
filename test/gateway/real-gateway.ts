import { spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { createClient, type GatewayClient } from "../../src/gateway/client.js";
import type { AnswerOf } from "../../src/gateway/contract/contract.js";
import {
  openGateway,
  type Gateway,
  type GatewayNews,
  type GatewayOptions,
} from "../../src/gateway/gateway.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";
import { removeHome } from "../remove-home.js";

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** A gateway in this process, with a state directory of its own. */
export interface RealGateway {
  readonly home: string;
  readonly socketPath: string;
  readonly token: string;
  readonly gateway: Gateway;
  readonly client: GatewayClient;
  readonly problems: readonly string[];
  readonly news: readonly GatewayNews[];
  as(token: string): GatewayClient;
  /** A request as no client of ours would make it. */
  raw(method: string, path: string, options?: RawOptions): Promise<Answer>;
}

export interface RawOptions {
  readonly token?: string | null;
  readonly body?: string;
}

/** One for all tests of a file. A stranger lives beside it, and must outlive it; no problem may be reported. */
export function oneGateway(told: Pick<GatewayOptions, "config" | "requestMs"> = {}): RealGateway {
  const problems: string[] = [];
  const heard: GatewayNews[] = [];
  const stage = { problems, news: heard } as unknown as {
    -readonly [K in keyof RealGateway]: RealGateway[K];
  };
  const stranger = spawn("sleep", ["3600"], { stdio: "ignore" });
  beforeAll(async () => {
    stage.home = await mkdtemp(join(tmpdir(), "hf-"));
    stage.socketPath = gatewaySocket(stage.home);
    const onNews = (news: GatewayNews): void => {
      heard.push(news);
      if (news.type === "problem") problems.push(`${news.message}: ${news.cause}`);
    };
    stage.gateway = await openGateway({ ...told, home: stage.home, onNews });
    stage.token = (await readOperatorToken(stage.home)) ?? "";
    stage.as = (token) => createClient({ socketPath: stage.socketPath, token });
    stage.client = stage.as(stage.token);
    stage.raw = (method, path, options = {}) => raw(stage, method, path, options);
  });
  afterAll(async () => {
    await stage.gateway.stop({ runs: "terminate", waitMs: 0 });
    const survived = stranger.exitCode === null && stranger.signalCode === null;
    stranger.kill("SIGKILL");
    await removeHome(stage.home);
    expect(survived, "the bystander").toBe(true);
    expect(problems).toEqual([]);
  });
  return stage;
}

async function raw(
  { socketPath, token: operator }: RealGateway,
  method: string,
  path: string,
  { token = operator, body }: RawOptions,
): Promise<Answer> {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const asking = request({ socketPath, method, path, headers });
  const answered = new Promise<Answer>((resolve, reject) => {
    asking.once("error", reject);
    asking.once("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }),
      );
    });
  });
  asking.end(body);
  return answered;
}

export function sh(script: string): { argv: string[] } {
  return { argv: ["/bin/sh", "-c", script] };
}

export function textOf({ output }: Pick<AnswerOf<"exec">, "output">, stream = "stdout"): string {
  return output.find((piece) => piece.stream === stream)?.text ?? "";
}

/** What an answer was refused with. */
export async function refusal(answer: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await answer.then(
    (value) => expect.fail(`it was answered: ${JSON.stringify(value)}`),
    (reason: unknown) => reason as { code: string; message: string },
  );
  return { code: error.code, message: error.message };
}

/** Asked again and again, until it is so. */
export async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`it never came to be that ${what}`);
    await setTimeout(20);
  }
}

export async function gone(client: GatewayClient, runId: string): Promise<AnswerOf<"getRun">> {
  let record = await client.getRun({ params: { runId } });
  await until(`${runId} ended`, async () => {
    record = await client.getRun({ params: { runId } });
    return record.state === "exited";
  });
  return record;
}
