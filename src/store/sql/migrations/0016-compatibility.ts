/** The lowest schema version whose builds may use the store after a migration. Null: only builds that know the migration. */
export const sql = `
alter table holdfast_migrations add column min_compatible integer;
`;
