import { spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import {
  type Gateway,
  type GatewayEvent,
  type GatewayOptions,
  openGateway,
} from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { removeStateDirectory } from "../temporary-directory.js";
import { waitFor } from "../wait-for.js";

export interface RawResponse {
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
  readonly news: readonly GatewayEvent[];
  as(token: string): GatewayClient;
  /** A request as no client of ours would make it. */
  raw(method: string, path: string, options?: RawRequestOptions): Promise<RawResponse>;
}

interface RawRequestOptions {
  readonly token?: string | null;
  readonly body?: string;
}

/** One gateway for all tests of a file, with a bystander that must survive it. It must report no problem. */
export function gatewayForFile(told: Pick<GatewayOptions, "config" | "requestMs"> = {}): RealGateway {
  const problems: string[] = [];
  const heard: GatewayEvent[] = [];
  const fixture = { problems, news: heard } as unknown as {
    -readonly [K in keyof RealGateway]: RealGateway[K];
  };
  const stranger = spawn("sleep", ["3600"], { stdio: "ignore" });
  beforeAll(async () => {
    fixture.home = await mkdtemp(join(tmpdir(), "hf-"));
    fixture.socketPath = gatewaySocketPath(fixture.home);
    const onNews = (news: GatewayEvent): void => {
      heard.push(news);
      if (news.type === "problem") problems.push(`${news.message}: ${news.cause}`);
    };
    fixture.gateway = await openGateway({ ...told, home: fixture.home, onEvent: onNews });
    fixture.token = (await readOperatorToken(fixture.home)) ?? "";
    fixture.as = (token) => createClient({ socketPath: fixture.socketPath, token });
    fixture.client = fixture.as(fixture.token);
    fixture.raw = (method, path, options = {}) => rawRequest(fixture, method, path, options);
  });
  afterAll(async () => {
    await fixture.gateway.stop({ runs: "terminate", waitMs: 0 });
    const survived = stranger.exitCode === null && stranger.signalCode === null;
    stranger.kill("SIGKILL");
    await removeStateDirectory(fixture.home);
    expect(survived, "the bystander").toBe(true);
    expect(problems).toEqual([]);
  });
  return fixture;
}

async function rawRequest(
  { socketPath, token: operator }: RealGateway,
  method: string,
  path: string,
  { token = operator, body }: RawRequestOptions,
): Promise<RawResponse> {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const asking = request({ socketPath, method, path, headers });
  const answered = new Promise<RawResponse>((resolve, reject) => {
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

export function shellCommand(script: string): { argv: string[] } {
  return { argv: ["/bin/sh", "-c", script] };
}

export function outputText({ output }: Pick<ResponseOf<"exec">, "output">, stream = "stdout"): string {
  return output.find((piece) => piece.stream === stream)?.text ?? "";
}

/** The error of a refused request. */
export async function errorOf(answer: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await answer.then(
    (value) => expect.fail(`it was answered: ${JSON.stringify(value)}`),
    (reason: unknown) => reason as { code: string; message: string },
  );
  return { code: error.code, message: error.message };
}

export async function waitForRunEnd(client: GatewayClient, runId: string): Promise<ResponseOf<"getRun">> {
  let record = await client.getRun({ params: { runId } });
  await waitFor(`${runId} ended`, async () => {
    record = await client.getRun({ params: { runId } });
    return record.state === "exited";
  });
  return record;
}
