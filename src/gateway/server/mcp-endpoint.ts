import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestContext } from "../../api/contract.js";
import { Unauthorized } from "../../errors.js";
import { packageVersion } from "../../home/package.js";
import type { McpHttp } from "../../mcp/transport/http.js";
import { tokenFromRequest } from "../auth/authentication.js";
import type { CountedRequest } from "./admission-control.js";
import { readBody } from "./json-bodies.js";

export const MCP_PATH = "/mcp";

/** MCP over HTTP, for the session whose token the client sends. The first request loads the code of the MCP server. */
export class McpEndpoint implements AsyncDisposable {
  readonly #socketPath: string;
  #http: Promise<McpHttp> | null = null;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    { requester, disconnected, countStream }: RequestContext,
    counted: CountedRequest,
  ): Promise<void> {
    const token = tokenFromRequest(request);
    // Clients keep the token in files of their own, and the operator's token may do everything.
    if (requester.kind === "operator" || token === null)
      throw new Unauthorized(
        "an MCP client needs the token of a session: holdfast sessions create --key <key> prints one",
      );
    const body = request.method === "POST" ? await readBody(request, counted) : null;
    this.#http ??= import("../../mcp/transport/http.js").then(
      ({ McpHttp }) => new McpHttp(packageVersion(), this.#socketPath),
    );
    const http = await this.#http;
    await http.serve({ request, response, body, token, signal: disconnected, countStream });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#http)?.[Symbol.asyncDispose]();
  }
}
