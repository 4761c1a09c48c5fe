/** Enough for every shape of statement this program has, filters included; a bound, because filters are the caller's. */
const NAMES_KEPT = 256;

/** A statement with a name is parsed and planned once per connection. Those beyond the bound have none, and still work. */
export class StatementNames {
  readonly #names = new Map<string, string>();

  of(sql: string): { readonly name?: string } {
    const known = this.#names.get(sql);
    if (known !== undefined) return { name: known };
    if (this.#names.size >= NAMES_KEPT) return {};
    const name = `s${this.#names.size}`;
    this.#names.set(sql, name);
    return { name };
  }
}
