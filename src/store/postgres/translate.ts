/**
 * The tables are written in SQLite's words, once. What PostgreSQL calls otherwise is exchanged here; what neither
 * knows fails the migration, in one transaction, and the tests.
 */
export function translateDdl(text: string): string {
  const finals = text.replaceAll(
    /create trigger (\w+)\s+before update( of [\w, ]+)? on (\w+)(?:\s+when ([^;]+?))?\s+begin\s+select raise\(abort, ('[^']+')\);\s+end;/g,
    (_, name: string, of: string | undefined, table: string, when: string | undefined, message: string) =>
      `create trigger ${name} before update${of ?? ""} on ${table} for each row${triggerCondition(when)} execute function refuse_update(${message});`,
  );
  return (
    finals
      .replaceAll(
        /drop trigger (\w+);/g,
        (_, name: string) => `drop trigger ${name} on ${tableOfTrigger(name, finals)};`,
      )
      .replaceAll(
        /integer primary key autoincrement not null/g,
        "bigint generated always as identity primary key",
      )
      // Identifiers are sorted and searched by their bytes, whatever the database's language.
      .replaceAll("text primary key", 'text collate "C" primary key')
      .replaceAll(/\binteger\b/g, "bigint")
      .replaceAll(") strict;", ");")
  );
}

/** What the translated text refers to. */
export const DDL_PREAMBLE = `
create function json_type(text) returns text language sql immutable as $$ select json_typeof($1::json) $$;

create function refuse_update() returns trigger language plpgsql as $$
begin
  raise exception '%', tg_argv[0];
end $$;
`;

function triggerCondition(when: string | undefined): string {
  // SQLite's `is` compares anything, PostgreSQL's only with what is a word of the language.
  return when === undefined
    ? ""
    : ` when (${when.replaceAll(/ is (\(?(?:old|new)\.)/g, " is not distinct from $1")})`;
}

/** The same text makes it anew. */
function tableOfTrigger(trigger: string, text: string): string {
  return (
    new RegExp(`create trigger ${trigger} before update(?: of [\\w, ]+)? on (\\w+)`).exec(text)?.[1] ?? ""
  );
}
