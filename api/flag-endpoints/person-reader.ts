import { parseStoredJson } from '../../platform/http-body/parse-json.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Properties, type StoredFacts } from '../flag-evaluation/subject.ts'
import { type CancellableWork } from './circuit-breaker.ts'

/** What a request wants to know about its subject from the store of persons and groups. */
interface PersonQuery {
  projectId: number
  distinctId: string
  /** Group keys by group type index. */
  groups: ReadonlyMap<number, string>
  /** Static cohorts that flags ask for. */
  cohortIds: readonly number[]
  /** Some flag has experience continuity. */
  needsHashKeys: boolean
}

/** A hash key to keep for somebody who has just been identified. */
interface HashKeyRecord {
  projectId: number
  distinctId: string
  /** The id before the user was identified. */
  hashKey: string
  flagKeys: readonly string[]
}

/** Where the flags read persons and groups. Both calls reject when the store is unavailable. */
export interface PersonReader {
  /** Everything about a subject at once. A person or group that does not exist has no properties. */
  readForFlags: (question: PersonQuery) => CancellableWork<StoredFacts>
  /** Keeps hash keys that do not exist yet. Resolves to those that count now, by flag key: the first one stays. */
  keepHashKeys: (note: HashKeyRecord) => CancellableWork<ReadonlyMap<string, string>>
}

/** Properties come as text: the driver would round the long numbers in them. */
interface FactsRow {
  properties: string | null
  group_properties: string | null
  cohort_ids: number[] | null
  hash_keys: Record<string, string> | null
}

/** Reads persons and groups from Postgres: one query for everything a request may need. */
export function createPersonReader (sql: Sql): PersonReader {
  return {
    readForFlags (question) {
      const query = queryFacts(sql, question)
      return { answer: query.then(([row]) => toFacts(row)), cancel: () => query.cancel() }
    },
    keepHashKeys (note) {
      const query = insertHashKeys(sql, note)
      const answer = query.then((rows) => new Map(rows.map((row) => [row.feature_flag_key, row.hash_key])))
      return { answer, cancel: () => query.cancel() }
    }
  }
}

function queryFacts (sql: Sql, { projectId, distinctId, groups, cohortIds, needsHashKeys }: PersonQuery) {
  return sql<FactsRow[]>`
    WITH me AS (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ${distinctId}
    )
    SELECT
      (SELECT properties::text FROM persons WHERE id = (SELECT person_id FROM me)) AS properties,
      (SELECT jsonb_object_agg(g.group_type_index, g.properties)::text
        FROM groups g
        JOIN unnest(${[...groups.keys()]}::integer[], ${[...groups.values()]}::text[])
          AS asked (group_type_index, group_key) USING (group_type_index, group_key)
        WHERE g.project_id = ${projectId}) AS group_properties,
      (SELECT array_agg(cohort_id) FROM cohort_members
        WHERE person_id = (SELECT person_id FROM me) AND cohort_id = ANY(${[...cohortIds]}::integer[])) AS cohort_ids,
      (SELECT jsonb_object_agg(feature_flag_key, hash_key)
        FROM (
          SELECT DISTINCT ON (o.feature_flag_key) o.feature_flag_key, o.hash_key
          FROM flag_hash_keys o
          WHERE ${needsHashKeys} AND o.project_id = ${projectId} AND o.distinct_id IN (
            SELECT ${distinctId}
            UNION ALL
            SELECT distinct_id FROM person_distinct_ids WHERE person_id = (SELECT person_id FROM me)
          )
          ORDER BY o.feature_flag_key, o.created_at, o.distinct_id
        ) oldest) AS hash_keys`
}

function insertHashKeys (sql: Sql, { projectId, distinctId, hashKey, flagKeys }: HashKeyRecord) {
  // Two browsers of one user may do this at the same time: the update that changes nothing returns the winner's row.
  return sql<Array<{ feature_flag_key: string, hash_key: string }>>`
    INSERT INTO flag_hash_keys AS o (project_id, distinct_id, feature_flag_key, hash_key)
    SELECT ${projectId}, ${distinctId}, key, ${hashKey} FROM unnest(${[...flagKeys]}::text[]) AS key
    ON CONFLICT (project_id, distinct_id, feature_flag_key) DO UPDATE SET hash_key = o.hash_key
    RETURNING feature_flag_key, hash_key`
}

function toFacts (row: FactsRow | undefined): StoredFacts {
  const groups = Object.entries(parseProperties<Record<string, Properties>>(row?.group_properties))
  return {
    properties: parseProperties<Properties>(row?.properties),
    groupProperties: new Map(groups.map(([index, properties]) => [Number(index), properties])),
    hashKeyOverrides: new Map(Object.entries(row?.hash_keys ?? {})),
    hashKeysUnknown: false,
    cohortIds: new Set(row?.cohort_ids ?? [])
  }
}

function parseProperties<T extends object> (text: string | null | undefined): T {
  return (text == null ? {} : parseStoredJson(text)) as T
}
