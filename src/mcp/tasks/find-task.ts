import { HoldfastError } from "../../errors.js";
import type { SessionConnection } from "../session/session-connection.js";

/** The id of the task of a run or turn. Null: it has none. */
export async function findTaskOf({ client }: SessionConnection, id: string): Promise<string | null> {
  try {
    return (await client.getTask({ params: { id } })).task.taskId;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}
