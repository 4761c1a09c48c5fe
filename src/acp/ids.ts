import { randomCharacters } from "../model/ids.js";

const TURN_ID_CHARACTERS = 12;

export function newTurnId(): string {
  return `turn_${randomCharacters(TURN_ID_CHARACTERS)}`;
}

/** The same whenever it is asked for: a message has one turn. */
export function turnIdOfMessage(messageId: string): string {
  return `turn_${messageId.slice("msg_".length)}`;
}

export function newPermissionId(): string {
  return `prm_${randomCharacters(TURN_ID_CHARACTERS)}`;
}
