import { Agent, type ClientRequest, type ClientRequestArgs } from "node:http";
import { defaults } from "../defaults.js";
import { HoldfastError } from "../errors.js";
import {
  authorizationOf,
  type ConnectCallback,
  connectAuthenticated,
  type GatewayAddress,
} from "./authenticated-connection.js";

/** Options of a request; aborting the request also aborts its connection. */
export interface AuthenticatedRequestOptions extends ClientRequestArgs {
  readonly proofSignal?: AbortSignal;
}

/** Connections of one client. Each is opened and proven once, and kept for further requests. */
export class AuthenticatedHttpAgent extends Agent {
  readonly #address: GatewayAddress;

  constructor(address: GatewayAddress) {
    // With a timeout, Node follows the Keep-Alive header of the gateway: it closes an idle connection before the gateway does.
    super({ keepAlive: true, timeout: defaults.requestMs });
    this.#address = address;
  }

  override createConnection(
    { proofSignal }: AuthenticatedRequestOptions,
    done: ConnectCallback = () => undefined,
  ): null {
    connectAuthenticated(this.#address, proofSignal, done);
    return null;
  }
}

/** Sends a request on its proven connection. */
export function sendAuthenticated(request: ClientRequest, body?: string): void {
  request.once("socket", (socket) => {
    const authorization = authorizationOf(socket);
    // Only connections of connectAuthenticated have this header; on any other connection nothing is sent.
    if (authorization === undefined)
      return void request.destroy(new HoldfastError("INTERNAL", "the connection is not proven"));
    request.setHeader("authorization", authorization);
    request.end(body);
  });
}
