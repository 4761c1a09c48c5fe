import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/** The arguments of `exec` for a tool that the conformance suite expects of a server under test. */
type Fixture = (given: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>>;

interface FixtureProxyOptions {
  readonly listen: string;
  readonly token: string;
  readonly tools: Readonly<Record<string, Fixture>>;
  /** URIs that the suite reads, and the resources that they stand for. */
  readonly resources: Readonly<Record<string, string>>;
  /** Called with the answer to a call of a fixture. */
  readonly onAnswer: (tool: string, text: string) => void;
}

/**
 * Passes requests on to `/mcp` with the session's token, with the names of Holdfast in place of the fixtures of the suite.
 * Everything else, the checks of Host and Origin included, is between the suite and the gateway.
 */
export async function openFixtureProxy(
  options: FixtureProxyOptions,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((asked, answer) => void pass(options, asked, answer));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

async function pass(
  options: FixtureProxyOptions,
  asked: IncomingMessage,
  answer: ServerResponse,
): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of asked) parts.push(part as Buffer);
  const { tool, body } = translate(options, Buffer.concat(parts).toString());
  const { listen, token, resources } = options;
  const headers: OutgoingHttpHeaders = { ...asked.headers, authorization: `Bearer ${token}` };
  const own = `127.0.0.1:${asked.socket.localPort}`;
  if (headers["host"] === own || headers["host"] === own.replace("127.0.0.1", "localhost"))
    headers["host"] = listen;
  const { origin } = asked.headers;
  if (origin?.endsWith(`:${asked.socket.localPort}`) === true) headers["origin"] = `http://${listen}`;
  if (tool !== null && headers["mcp-name"] === tool) headers["mcp-name"] = "exec";
  const named = headers["mcp-name"];
  if (typeof named === "string") headers["mcp-name"] = resources[named] ?? named;
  for (const name of ["transfer-encoding", "connection", "keep-alive", "content-length"])
    delete headers[name];
  if (body !== "") headers["content-length"] = String(Buffer.byteLength(body));
  const [host, port] = listen.split(":");
  const { method, url: path } = asked;
  const forwarded = request({ host, port, method, path, headers }, (received) => {
    const { "content-length": _, ...rest } = received.headers;
    answer.writeHead(received.statusCode ?? 500, rest);
    received.on("data", (part: Buffer) => answer.write(translateBack(options, tool, part.toString())));
    received.on("end", () => answer.end());
    received.on("error", () => answer.destroy());
  });
  forwarded.on("error", () => answer.destroy());
  answer.on("close", () => forwarded.destroy());
  forwarded.end(body);
}

/** The request with the tool and resource of Holdfast. `tool`: the fixture that was called. */
function translate(
  { tools, resources }: FixtureProxyOptions,
  text: string,
): { readonly tool: string | null; readonly body: string } {
  const replaced = Object.entries(resources).reduce(
    (body, [from, to]) => body.replaceAll(`"${from}"`, `"${to}"`),
    text,
  );
  let message: { method?: string; params?: { name?: string; arguments?: Record<string, unknown> } };
  try {
    message = JSON.parse(replaced) as typeof message;
  } catch {
    return { tool: null, body: replaced };
  }
  const { name = "", arguments: given = {} } = message.params ?? {};
  const fixture = message.method === "tools/call" ? tools[name] : undefined;
  if (fixture === undefined) return { tool: null, body: replaced };
  const params = { ...message.params, name: "exec", arguments: fixture(given) };
  return { tool: name, body: JSON.stringify({ ...message, params }) };
}

function translateBack(
  { resources, onAnswer }: FixtureProxyOptions,
  tool: string | null,
  text: string,
): string {
  const replaced = Object.entries(resources).reduce(
    (body, [to, from]) => body.replaceAll(`"${from}"`, `"${to}"`),
    text,
  );
  if (tool === null) return replaced;
  onAnswer(tool, replaced);
  // The line that says how the command ended is not part of what a fixture answers.
  return replaced.replace(/\\n\[run_\w+ ended with exit code 0\]/, "");
}
