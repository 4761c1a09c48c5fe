import { randomCharacters } from "../supervisor/ids.js";

const CHARACTERS = 12;

export function newTaskId(): string {
  return `task_${randomCharacters(CHARACTERS)}`;
}
