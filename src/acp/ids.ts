import { randomCharacters } from "../supervisor/ids.js";

const CHARACTERS = 12;

export function newTurnId(): string {
  return `turn_${randomCharacters(CHARACTERS)}`;
}

export function newPermissionId(): string {
  return `prm_${randomCharacters(CHARACTERS)}`;
}
