import type { GatewayAddress } from "../../api/authenticated-connection.js";
import { createClient, followNdjson, type GatewayClient } from "../../api/client.js";
import { endpoints } from "../../api/endpoints.js";
import { Semaphore } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { HoldfastError, TooManyRequests } from "../../errors.js";
import type { SessionConnection } from "./session-connection.js";

/** The address of a session's gateway, with the directory and environment of the session's commands. */
export interface SessionAccess extends Pick<SessionConnection, "cwd" | "environment"> {
  readonly address: GatewayAddress;
}

interface ConnectOptions {
  /** Finds the session again after a request failed for `error`. Rejects with `error` if that cannot help. */
  readonly renew?: (error: HoldfastError) => Promise<SessionAccess>;
  /** True while the gateway stops: calls that end then were ended by the gateway, not by the client. */
  readonly isStopping?: () => boolean;
}

/**
 * A connection of the session that the token belongs to. Only a request that certainly was not carried out is sent once
 * more, after `renew`. Requests beyond `mcpCallsAtOnce` wait.
 */
export function connectSession(
  access: SessionAccess,
  { renew, isStopping = () => false }: ConnectOptions = {},
): SessionConnection {
  const semaphore = new Semaphore(defaults.mcpCallsAtOnce);
  let current = { access, client: createClient(access.address) };
  let renewing: Promise<void> | null = null;

  const renewFrom = async (failed: GatewayClient, error: HoldfastError): Promise<void> => {
    if (renew === undefined) throw error;
    // Another request that failed has renewed it.
    if (current.client !== failed) return;
    renewing ??= renew(error)
      .then((found) => {
        current = { access: found, client: createClient(found.address) };
      })
      .finally(() => {
        renewing = null;
      });
    await renewing;
  };

  const sender = (helps: (error: unknown) => error is HoldfastError): GatewayClient => {
    const send = async (
      verb: keyof GatewayClient,
      input?: object,
      signal?: AbortSignal,
    ): Promise<unknown> => {
      signal?.throwIfAborted();
      const { client } = current;
      try {
        return await (client[verb] as AnyVerb)(input, signal);
      } catch (error) {
        if (!helps(error)) throw error;
        await renewFrom(client, error);
        signal?.throwIfAborted();
        return (current.client[verb] as AnyVerb)(input, signal);
      }
    };
    const verbs = Object.keys(current.client) as (keyof GatewayClient)[];
    return Object.fromEntries(
      verbs.map((verb): [string, AnyVerb] => [
        verb,
        (input, signal) => semaphore.run(() => send(verb, input, signal)),
      ]),
    ) as GatewayClient;
  };

  const client = sender(isNotCarriedOut);
  let followed = 0;
  return {
    client,
    observer: sender(isRefused),
    followTask: (taskId, after, signal) => {
      const path = endpoints.taskEvents.path.replace("{id}", encodeURIComponent(taskId));
      return followNdjson(current.access.address, `${path}?follow=1&after=${after}`, signal);
    },
    countFollowed: (count) => {
      if (followed + count > defaults.mcpFollowed)
        throw new TooManyRequests(`${followed} of ${defaults.mcpFollowed} subscribed resources and tasks`);
      followed += count;
      let open = true;
      return {
        [Symbol.dispose]: () => {
          if (open) followed -= count;
          open = false;
        },
      };
    },
    stopCancelled: async (runId) => {
      if (isStopping()) return;
      // It was not started, or has ended.
      await client
        .kill({ params: { runId }, body: { reason: "the call was cancelled" } })
        .catch(() => undefined);
    },
    get cwd() {
      return current.access.cwd;
    },
    get environment() {
      return current.access.environment;
    },
  };
}

type AnyVerb = (input?: object, signal?: AbortSignal) => Promise<unknown>;

/** The token is not valid, or no longer. */
function isRefused(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.code === "UNAUTHORIZED";
}

/** True if the request was certainly not carried out: its token is not valid, or no gateway listens. */
export function isNotCarriedOut(error: unknown): error is HoldfastError {
  if (isRefused(error)) return true;
  if (!(error instanceof HoldfastError) || error.code !== "GATEWAY_UNREACHABLE") return false;
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ECONNREFUSED";
}
