import type { ResponseOf } from "../../api/contract.js";
import { readOnce } from "../../api/single-request.js";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { gatewaySocketPath, resolveHome } from "../../home/state-directory.js";
import { readOperatorToken } from "../../sessions/tokens.js";
import { notice } from "../print/errors-and-notices.js";
import { sessionToken } from "./requester.js";

type GatewayRunView = ResponseOf<"viewRuns">;

/** The fields of the API's request. */
interface GatewayRunViewRequest {
  readonly all: boolean;
  readonly processes: boolean;
  readonly limit: number;
}

/** The most runs of one answer. */
export const VIEW_LIMIT = 1_000;

/**
 * Runs with everything that a table shows, from the running gateway, which is faster than opening the store. Null: the
 * caller has to read the store, because no gateway answers (reported if one is running), one answer cannot have so many
 * runs, or the caller is a session.
 */
export async function viewRunsOfGateway({
  all,
  processes,
  limit,
}: GatewayRunViewRequest): Promise<GatewayRunView | null> {
  const home = resolveHome();
  if (sessionToken() !== null || limit > VIEW_LIMIT) return null;
  const token = await readOperatorToken(home);
  if (token === null) return null;
  const query = { limit, ...(all ? { all: "1" } : {}), ...(processes ? { processes: "1" } : {}) };
  const address = { socketPath: gatewaySocketPath(home), token };
  const answer = await readOnce(address, "viewRuns", query, defaults.gatewayViewMs).catch(
    (error: unknown) => {
      if (error instanceof HoldfastError) return error;
      throw error;
    },
  );
  if (answer === "not-listening") return null;
  if (answer === "silent") {
    notice(
      `the gateway did not answer within ${defaults.gatewayViewMs / 1_000} s; showing what the store has`,
      "yellow",
    );
    return null;
  }
  if (answer instanceof HoldfastError) {
    // A gateway of an earlier version does not have the route.
    if (answer.code !== "NOT_FOUND") notice(`${errorMessage(answer)}; showing what the store has`, "yellow");
    return null;
  }
  if (answer.more && answer.runs.length < limit) return null;
  if (answer.storeAway !== null)
    notice(`the store cannot be read, so only runs of this host are shown: ${answer.storeAway}`, "yellow");
  return answer;
}
