/** The migrated database that every test's own is a copy of: copying takes a tenth of migrating. */
export const TEMPLATE_DATABASE = 'millrace_template'
