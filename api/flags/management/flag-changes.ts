/** The history of a flag: what each change made of it, and who made it. Written with the flag, in one transaction. */
import { isDeepStrictEqual } from 'node:util'
import type { Columns } from '../../../platform/postgres/sql-statement.ts'
import type { Sql, SqlTemplates, Statement, TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { newestBy, selectPage } from '../../http/list-queries.ts'
import type { PageContent, PageQuery } from '../../http/pagination.ts'
import { selectUserSummary, userSummarySchema } from '../../projects/users.ts'
import { WRITABLE_FIELDS } from './feature-flag.ts'
import { findFeatureFlag } from './read-feature-flags.ts'
import { array, object, type Value } from '../../http/json-schema.ts'

export interface FlagActor {
  projectId: number
  userId: number
  /** Of the personal key: its name is kept with the change. */
  keyHash: string
  /** Name of the experiment for which a flag is written. */
  experiment?: string
}

/** Changes of a flag that are kept, by number and bytes, newest first. */
const MAX_CHANGES = 500
const MAX_BYTES = 10_000_000

type Definition = Record<string, unknown>

/** A change, in the form of PostHog's activity log. */
export type FlagActivity = Value<typeof flagActivitySchema, Date>

export const flagActivitySchema = object({
  id: { type: 'string' },
  user: { ...userSummarySchema, description: 'Owner of the key; null if the user was deleted.' },
  is_system: { type: 'boolean', description: 'Always false: only users change flags.' },
  activity: { type: 'string', enum: ['created', 'updated', 'deleted'] },
  item_id: { type: 'string', description: 'Id of the flag.' },
  scope: { type: 'string', enum: ['FeatureFlag'] },
  detail: object({
    name: { type: 'string', description: 'Key of the flag after the change.' },
    changes: array(object({
      type: { type: 'string', enum: ['FeatureFlag'] },
      action: { type: 'string', enum: ['changed'] },
      field: { type: 'string' },
      before: { description: 'Any JSON.' },
      after: { description: 'Any JSON.' }
    }), { description: 'Changed fields; empty if the flag was created.' }),
    short_id: { type: 'null' },
    type: { type: 'null' },
    trigger: { type: 'null' }
  }),
  created_at: { type: 'string', format: 'date-time', description: 'When the change was made.' },
  version: { type: 'integer', description: 'Version of the flag after the change.' },
  key_label: { type: 'string', description: 'Name of the personal key at that time.' },
  experiment: { type: ['string', 'null'], description: 'Name of the experiment whose change wrote the flag; null if the flag was changed directly.' },
  definition: {
    type: 'object', additionalProperties: true,
    description: 'All writable fields of the flag after the change; a PATCH with them restores this version.'
  }
}, { $id: 'FeatureFlagActivity' })

/** The fields of `feature_flags AS f` that can be written, as one JSON object. */
function selectDefinition (sql: SqlTemplates): Statement {
  return sql.unsafe(`jsonb_build_object(${WRITABLE_FIELDS.map((name) => `'${name}', f.${name}`).join(', ')})`)
}

/** The columns of a change that say who made it. */
function selectActor (sql: SqlTemplates, { userId, keyHash, experiment = undefined }: FlagActor): Statement {
  return sql`${userId}::integer, coalesce((SELECT label FROM personal_api_keys WHERE secure_value = ${keyHash}), ''),
    ${experiment ?? null}::text`
}

export async function recordCreation (tx: TransactionSql, actor: FlagActor, flagId: number): Promise<void> {
  await tx`
    INSERT INTO feature_flag_changes (flag_id, version, after, user_id, key_label, experiment)
    SELECT f.id, f.version, ${selectDefinition(tx)}, ${selectActor(tx, actor)} FROM feature_flags AS f WHERE f.id = ${flagId}`
}

/**
 * Changes columns of a flag, raises its version, and keeps what it was before. What leaves everything as it was is no
 * change; the oldest ones make room.
 */
export async function recordChange (
  tx: TransactionSql, actor: FlagActor, { flagId, columns }: { flagId: number, columns: Columns }
): Promise<void> {
  // The parts of one statement see the same rows: those before it.
  await tx`
    WITH stored AS (SELECT ${selectDefinition(tx)} AS definition FROM feature_flags AS f WHERE f.id = ${flagId}),
    changed AS (
      UPDATE feature_flags AS f SET ${columns}, version = f.version + 1 WHERE f.id = ${flagId}
      RETURNING f.id, f.version, ${selectDefinition(tx)} AS definition
    )
    INSERT INTO feature_flag_changes (flag_id, version, before, after, user_id, key_label, experiment)
    SELECT changed.id, changed.version, stored.definition, changed.definition, ${selectActor(tx, actor)}
    FROM changed, stored WHERE changed.definition <> stored.definition`
  await tx`
    DELETE FROM feature_flag_changes WHERE id IN (
      SELECT id FROM (
        SELECT id, row_number() OVER newest AS place,
          sum(coalesce(pg_column_size(before), 0) + pg_column_size(after)) OVER newest AS bytes
        FROM feature_flag_changes WHERE flag_id = ${flagId} WINDOW newest AS (ORDER BY version DESC)
      ) AS kept
      WHERE place > ${MAX_CHANGES} OR (bytes > ${MAX_BYTES} AND place > 1)
    )`
}

/**
 * The e-mail address of who changed a flag last; null when that is not known.
 *
 * @param key.after  Only changes since this version.
 */
export async function findLastAuthor (
  tx: TransactionSql, key: { flagId: number, after: number }
): Promise<string | null> {
  const [found] = await tx<Array<{ email: string | null }>>`
    SELECT (SELECT email FROM users WHERE id = c.user_id) AS email FROM feature_flag_changes AS c
    WHERE c.flag_id = ${key.flagId} AND c.version > ${key.after} ORDER BY c.version DESC LIMIT 1`
  return found?.email ?? null
}

interface Row extends Pick<FlagActivity, 'id' | 'user' | 'version' | 'key_label' | 'experiment' | 'created_at'> {
  before: Definition | null
  after: Definition
}

/**
 * Lists the changes of a flag, deleted or not, newest first.
 *
 * @throws {HttpError} 404 when the project has no such flag.
 */
export async function listFlagChanges (
  sql: Sql, key: { projectId: number, id: number }, query: PageQuery & { after?: string }
): Promise<PageContent<FlagActivity>> {
  await findFeatureFlag(sql, key, { deleted: true })
  const page = await selectPage<Row>(sql, query, {
    order: 'newest change', keys: newestBy(sql`c.version`), from: sql`feature_flag_changes AS c`, where: sql`c.flag_id = ${key.id}`,
    select: sql`c.id::text AS id, c.version, c.before, c.after, c.key_label, c.experiment, c.created_at,
      (SELECT ${selectUserSummary(sql)} FROM users u WHERE u.id = c.user_id) AS user`
  })
  return { ...page, results: page.results.map((row) => toActivity(key.id, row)) }
}

function toActivity (flagId: number, { before, after, ...row }: Row): FlagActivity {
  const changes: FlagActivity['detail']['changes'] = before === null
    ? []
    : WRITABLE_FIELDS.filter((field) => !isDeepStrictEqual(before[field], after[field])).map((field) =>
      ({ type: 'FeatureFlag', action: 'changed', field, before: before[field], after: after[field] }))
  return {
    ...row,
    is_system: false,
    activity: before === null ? 'created' : after['deleted'] === true ? 'deleted' : 'updated',
    item_id: String(flagId),
    scope: 'FeatureFlag',
    detail: {
      name: String(after['key']),
      changes,
      short_id: null,
      type: null,
      trigger: null
    },
    definition: after
  }
}
