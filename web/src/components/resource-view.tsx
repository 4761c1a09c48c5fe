import type { ComponentChildren } from "preact";
import type { Resource } from "../live/use-resource.js";
import { ErrorBox } from "./error-box.js";

interface ResourceViewProps<Value> {
  readonly resource: Resource<Value>;
  readonly children: (value: Value) => ComponentChildren;
}

/** Shows the data of a resource, or that it is being read. If the last read failed, the reason is above the data. */
export function ResourceView<Value>({ resource, children }: ResourceViewProps<Value>) {
  const { value, error, reload } = resource;
  return (
    <>
      {error !== null && <ErrorBox error={error} retry={reload} />}
      {value === undefined ? error === null && <p class="quiet">Loading…</p> : children(value)}
    </>
  );
}
