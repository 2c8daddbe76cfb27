import { parseStoredJson } from '../../platform/http-body/parse-json.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Properties, StoredFacts } from '../flag-evaluation/subject.ts'
import type { CancellableWork } from './circuit-breaker.ts'

/** What to read about the subject of a request. */
interface PersonQuery {
  projectId: number
  distinctId: string
  /** Group keys by group type index. */
  groups: ReadonlyMap<number, string>
  /** Static cohorts that flags refer to. */
  cohortIds: readonly number[]
  /** At least one flag has experience continuity. */
  needsHashKeys: boolean
}

/** A hash key to store for a user who has just been identified. */
interface HashKeyRecord {
  projectId: number
  distinctId: string
  /** The id that the user had before being identified. */
  hashKey: string
  flagKeys: readonly string[]
}

/** Reads and writes what Postgres stores about the subjects of flags. Both calls reject when it is unavailable. */
export interface PersonReader {
  /** Reads everything about a subject. A person or group that does not exist has no properties. */
  readForFlags: (query: PersonQuery) => CancellableWork<StoredFacts>
  /** Stores hash keys that do not exist yet. Resolves to the stored ones by flag key: the first one written stays. */
  keepHashKeys: (record: HashKeyRecord) => CancellableWork<ReadonlyMap<string, string>>
}

/** Properties come as text, because the driver would round long numbers. */
interface FactsRow {
  properties: string | null
  group_properties: string | null
  cohort_ids: number[] | null
  hash_keys: Record<string, string> | null
}

/** Reads with one query everything that a request may need. */
export function createPersonReader (sql: Sql): PersonReader {
  return {
    readForFlags (query) {
      const statement = queryFacts(sql, query)
      return { answer: statement.then(([row]) => toFacts(row)), cancel: () => statement.cancel() }
    },
    keepHashKeys (record) {
      const statement = insertHashKeys(sql, record)
      const answer = statement.then((rows) => new Map(rows.map((row) => [row.feature_flag_key, row.hash_key])))
      return { answer, cancel: () => statement.cancel() }
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
  // Two browsers of one user may do this at the same time: the update changes nothing and returns the row of the first.
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
