import { randomCharacters } from "../model/ids.js";

const TASK_ID_CHARACTERS = 12;

export function newTaskId(): string {
  return `task_${randomCharacters(TASK_ID_CHARACTERS)}`;
}
