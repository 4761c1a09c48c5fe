import type { RequestOf, ResponseOf } from "../../../../src/api/contract.js";

type Answer = RequestOf<"acpAnswer">["body"];
type Content = NonNullable<Answer["content"]>;
type Form = NonNullable<ResponseOf<"acpQuestion">["form"]>;
type Field = Form["fields"][number];

interface ElicitationFormProps {
  readonly form: Form;
  readonly busy: boolean;
  readonly send: (answer: Answer) => void;
}

/** A question of an agent to its user. The gateway checks the values and converts texts to the types of the fields. */
export function ElicitationForm({ form, busy, send }: ElicitationFormProps) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    send({ verdict: "allow", content: contentOf(form.fields, given) });
  };
  return (
    <form class="form" onSubmit={submit}>
      {form.url !== null && (
        <p>
          The agent asks you to open this address yourself: <code class="anywhere">{form.url}</code>
        </p>
      )}
      {form.fields.map((field) => (
        <FormField key={field.name} field={field} />
      ))}
      <div class="answer-buttons">
        <button type="submit" class="primary" disabled={busy}>
          {form.url === null ? "Answer" : "Done"}
        </button>
        <button type="button" disabled={busy} onClick={() => send({ verdict: "deny" })}>
          Decline
        </button>
        <button type="button" class="plain" disabled={busy} onClick={() => send({ verdict: "cancel" })}>
          Dismiss
        </button>
      </div>
    </form>
  );
}

function FormField({ field }: { readonly field: Field }) {
  const { name, title, description, required } = field;
  return (
    <label class={field.type === "boolean" ? "check" : "field"}>
      <span>
        <bdi>{title ?? name}</bdi>
        {!required && field.type !== "boolean" && <span class="quiet"> (optional)</span>}
      </span>
      <FieldInput field={field} />
      {description !== null && (
        <span class="quiet">
          <bdi>{description}</bdi>
        </span>
      )}
    </label>
  );
}

function FieldInput({
  field: { name, type, required, choices, min, max, default: given },
}: {
  readonly field: Field;
}) {
  if (type === "boolean") return <input type="checkbox" name={name} defaultChecked={given === true} />;
  if (choices !== null)
    return (
      <select name={name} multiple={type === "array"} required={required}>
        {type !== "array" && given === null && <option value="" />}
        {choices.map(({ value, title }) => (
          <option
            key={value}
            value={value}
            selected={Array.isArray(given) ? given.includes(value) : given === value}
          >
            {title ?? value}
          </option>
        ))}
      </select>
    );
  const text = given === null ? "" : Array.isArray(given) ? given.join(", ") : String(given);
  if (type === "number" || type === "integer")
    return (
      <input
        type="number"
        name={name}
        defaultValue={text}
        required={required}
        step={type === "integer" ? 1 : "any"}
        {...(min === null ? {} : { min })}
        {...(max === null ? {} : { max })}
      />
    );
  return <input type="text" name={name} defaultValue={text} required={required} autocomplete="off" />;
}

/** An empty field is left out, or takes its default. */
function contentOf(fields: readonly Field[], given: FormData): Content {
  const content: Record<string, Content[string]> = {};
  for (const { name, type, choices } of fields) {
    const values = given.getAll(name).filter((value) => typeof value === "string");
    if (type === "boolean") content[name] = values.length > 0;
    else if (type === "array")
      content[name] =
        choices === null
          ? (values[0] ?? "")
              .split(",")
              .map((value) => value.trim())
              .filter((value) => value !== "")
          : values;
    else if (values[0] !== undefined && values[0] !== "") content[name] = values[0];
  }
  return content;
}
