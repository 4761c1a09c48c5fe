import type { ComponentChildren } from "preact";

/** Names and values of one thing. A value of null is left out. */
export function FieldList({
  fields,
}: {
  readonly fields: readonly (readonly [string, ComponentChildren])[];
}) {
  return (
    <dl class="facts">
      {fields
        .filter(([, value]) => value !== null)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
