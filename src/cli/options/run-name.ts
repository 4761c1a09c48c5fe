import { InvalidArgumentError } from "commander";

/** The label that holds the name of a run. */
export const NAME_LABEL = "name";

/** As for containers. A name must not look like a run id, which would be resolved first. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
const RUN_ID = /^(?:run_.*|[0-9a-z]{12})$/;

export function parseRunName(text: string): string {
  if (!NAME.test(text))
    throw new InvalidArgumentError(
      "Write up to 63 letters, digits, _ . or -, beginning with a letter or digit.",
    );
  if (RUN_ID.test(text)) throw new InvalidArgumentError("It looks like a run id.");
  return text;
}
