import { type Compilable, type CompiledQuery, type RawBuilder, sql } from "kysely";

/** A parameter whose value is read when the statement is executed. */
export class LateValue {
  readonly read: () => unknown;

  constructor(read: () => unknown) {
    this.read = read;
  }
}

/** A parameter whose value each execution provides. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** A placeholder in a statement for each value. */
export type Placeholders<Values> = {
  readonly [Name in keyof Values]-?: RawBuilder<Exclude<Values[Name], undefined>>;
};

/** Enough for all shapes of this program; bounded, because the columns of a change vary. */
const SHAPES_KEPT = 512;

/** Compiled statements. Building and compiling a statement costs more than executing it. */
export class Statements {
  readonly #compiled = new Map<string, CompiledQuery>();

  /**
   * The statement of a shape with these values. `build` is called when a shape is new; statements of one shape differ
   * in nothing but the values.
   */
  bind<Row, Values extends object>(
    shape: string,
    values: Values,
    build: (places: Placeholders<Values>) => Compilable<Row>,
  ): Compilable<Row> {
    const template = this.#compiled.get(shape) ?? this.#compile(shape, values, build);
    const given = values as Readonly<Record<string, unknown>>;
    const parameters = template.parameters.map((each) =>
      each instanceof Placeholder ? given[each.name] : each,
    );
    const bound = { ...template, parameters } as CompiledQuery<Row>;
    return { compile: () => bound };
  }

  #compile<Values extends object>(
    shape: string,
    values: Values,
    build: (places: Placeholders<Values>) => Compilable,
  ): CompiledQuery {
    const places = Object.keys(values).map((name) => [name, sql.val(new Placeholder(name))]);
    const template = build(Object.fromEntries(places) as Placeholders<Values>).compile();
    if (this.#compiled.size >= SHAPES_KEPT) this.#compiled.clear();
    this.#compiled.set(shape, template);
    return template;
  }
}

/** Names the shape of a statement that sets or inserts these columns. */
export function shapeOf(name: string, columns: object): string {
  return `${name}: ${Object.keys(columns).join(" ")}`;
}
