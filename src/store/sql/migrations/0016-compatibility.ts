/** The lowest schema version whose builds may go on using the store after a migration. Null: only builds that know it. */
export const sql = `
alter table holdfast_migrations add column min_compatible integer;
`;
