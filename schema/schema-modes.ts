/**
 * What happens to an event whose properties do not meet the schema:
 *
 * - `observe`: counted, stored, and marked by a negative `schema_version`.
 * - `quarantine`: dead-lettered, to be looked at and replayed.
 * - `reject`: dropped and counted.
 */
export const SCHEMA_MODES = ['observe', 'quarantine', 'reject'] as const

export type SchemaMode = (typeof SCHEMA_MODES)[number]
