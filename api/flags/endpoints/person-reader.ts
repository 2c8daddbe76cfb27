import { parseStoredJson } from '../../../engines/body/parse-json.ts'
import { errorCode } from '../../../engines/errors.ts'
import type { Properties, StoredFacts } from '../../../engines/flags/subject.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { CancellableWork } from './circuit-breaker.ts'

export interface PersonQuery {
  projectId: number
  distinctId: string
  groups: ReadonlyMap<number, string>
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
export type PersonReader = ReturnType<typeof createPersonReader>

/** Properties come as text, because the driver would round long numbers. */
interface FactsRow {
  properties: string | null
  group_properties: string | null
  cohort_ids: number[] | null
  hash_keys: Record<string, string> | null
}

/** Four readings of some milliseconds under way leave half of the connections to everything else. */
const READINGS = { maxQuestions: 200, maxReadings: 4 }

/** Reads with one query everything that the requests of a moment may need. */
export function createPersonReader (sql: Sql) {
  return {
    /** Reads everything about a subject. A person or group that does not exist has no properties. */
    readForFlags: readTogether((queries: readonly PersonQuery[]) => {
      const statement = queryFacts(sql, queries)
      return { answer: statement.then((rows) => rows.map(toFacts)), cancel: () => statement.cancel() }
    }, READINGS),
    /** Stores hash keys that do not exist yet. Resolves to the stored ones by flag key: the first one written stays. */
    keepHashKeys (record: HashKeyRecord): CancellableWork<ReadonlyMap<string, string>> {
      const statement = insertHashKeys(sql, record)
      const answer = statement.then((rows) => new Map(rows.map((row) => [row.feature_flag_key, row.hash_key])))
      return { answer, cancel: () => statement.cancel() }
    }
  }
}

/** A row for each query, in their order. Postgres has no arrays of arrays of any length: those travel as text. */
function queryFacts (sql: Sql, queries: readonly PersonQuery[]) {
  return sql<FactsRow[]>`
    SELECT
      persons.properties::text AS properties,
      (SELECT jsonb_object_agg(g.group_type_index, g.properties)::text
        FROM jsonb_each_text(asked.groups::jsonb) AS named (group_type_index, group_key)
        JOIN groups g ON g.project_id = asked.project_id
          AND g.group_type_index = named.group_type_index::integer AND g.group_key = named.group_key) AS group_properties,
      (SELECT array_agg(cohort_id) FROM (
          SELECT cohort_id FROM cohort_members WHERE person_id = me.person_id
          UNION ALL
          SELECT cohort_id FROM cohort_people WHERE person = persons.uuid AND cohort_id = ANY(asked.cohort_ids::integer[])
        ) AS listed WHERE cohort_id = ANY(asked.cohort_ids::integer[])) AS cohort_ids,
      (SELECT jsonb_object_agg(feature_flag_key, hash_key)
        FROM (
          SELECT DISTINCT ON (o.feature_flag_key) o.feature_flag_key, o.hash_key
          FROM flag_hash_keys o
          WHERE asked.needs_hash_keys AND o.project_id = asked.project_id AND o.distinct_id IN (
            SELECT asked.distinct_id
            UNION ALL
            SELECT distinct_id FROM person_distinct_ids WHERE person_id = me.person_id
          )
          ORDER BY o.feature_flag_key, o.created_at, o.distinct_id
        ) oldest) AS hash_keys
    FROM unnest(
      ${queries.map(({ projectId }) => projectId)}::integer[], ${queries.map(({ distinctId }) => distinctId)}::text[],
      ${queries.map(({ groups }) => groups.size === 0 ? '{}' : JSON.stringify(Object.fromEntries(groups)))}::text[],
      ${queries.map(({ cohortIds }) => `{${cohortIds.join()}}`)}::text[],
      ${queries.map(({ needsHashKeys }) => needsHashKeys)}::boolean[]
    ) WITH ORDINALITY AS asked (project_id, distinct_id, groups, cohort_ids, needs_hash_keys, position)
    LEFT JOIN person_distinct_ids me ON me.project_id = asked.project_id AND me.distinct_id = asked.distinct_id
    LEFT JOIN persons ON persons.id = me.person_id
    ORDER BY asked.position`
}

function insertHashKeys (sql: Sql, { projectId, distinctId, hashKey, flagKeys }: HashKeyRecord) {
  // Two browsers of one user may do this at the same time: the update changes nothing and returns the row of the first.
  return sql<Array<{ feature_flag_key: string, hash_key: string }>>`
    INSERT INTO flag_hash_keys AS o (project_id, distinct_id, feature_flag_key, hash_key)
    SELECT ${projectId}, ${distinctId}, key, ${hashKey} FROM unnest(${[...flagKeys]}::text[]) AS key
    ON CONFLICT (project_id, distinct_id, feature_flag_key) DO UPDATE SET hash_key = o.hash_key
    RETURNING feature_flag_key, hash_key`
}

function toFacts (row: FactsRow): StoredFacts {
  const groups = Object.entries(parseProperties<Record<string, Properties>>(row.group_properties))
  return {
    properties: parseProperties<Properties>(row.properties),
    groupProperties: new Map(groups.map(([index, properties]) => [Number(index), properties])),
    hashKeyOverrides: new Map(Object.entries(row.hash_keys ?? {})),
    hashKeysUnknown: false,
    cohortIds: new Set(row.cohort_ids ?? [])
  }
}

function parseProperties<T extends object> (text: string | null | undefined): T {
  return (text == null ? {} : parseStoredJson(text)) as T
}

type ReadAll<Question, Answer> = (questions: readonly Question[]) => CancellableWork<readonly Answer[]>

interface ReadTogetherOptions {
  maxQuestions: number
  /** Maximum concurrent reads; questions beyond it share the next read. */
  maxReadings: number
}

interface Asker<Question, Answer> {
  question: Question
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
  cancel: () => void
}

/**
 * Lets questions that are asked at the same moment share one reading: a statement costs the database and this process
 * about the same for one row as for thirty.
 *
 * A question alone is read at the end of the turn of the event loop in which it was asked. A reading is cancelled when
 * nobody waits for it any more. When the database refuses the values of a reading (SQLSTATE class 22), its questions
 * are read one by one, so that only the one at fault fails.
 */
export function readTogether<Question, Answer> (
  readAll: ReadAll<Question, Answer>, { maxQuestions, maxReadings }: ReadTogetherOptions
): (question: Question) => CancellableWork<Answer> {
  const waiting = new Set<Asker<Question, Answer>>()
  let readings = 0
  let isScheduled = false

  return function read (question) {
    const { promise: answer, resolve, reject } = Promise.withResolvers<Answer>()
    const asker = { question, resolve, reject, cancel: () => { waiting.delete(asker) } }
    waiting.add(asker)
    schedule()
    return { answer, cancel: () => asker.cancel() }
  }

  function schedule (): void {
    if (isScheduled || waiting.size === 0 || readings >= maxReadings) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      while (waiting.size > 0 && readings < maxReadings) void readFor(take())
    })
  }

  function take (): Asker<Question, Answer>[] {
    const askers = [...waiting.values().take(maxQuestions)]
    for (const asker of askers) waiting.delete(asker)
    return askers
  }

  async function readFor (askers: readonly Asker<Question, Answer>[]): Promise<void> {
    readings++
    try {
      const { answer, cancel } = readAll(askers.map(({ question }) => question))
      let interested = askers.length
      for (const asker of askers) {
        asker.cancel = () => {
          asker.cancel = () => {}
          if (--interested === 0) cancel()
        }
      }
      const answers = await answer
      askers.forEach((asker, i) => asker.resolve(answers[i] as Answer))
    } catch (error) {
      if (askers.length > 1 && errorCode(error).startsWith('22')) {
        await Promise.all(askers.map(async (asker) => await readFor([asker])))
      } else {
        for (const asker of askers) asker.reject(error)
      }
    } finally {
      readings--
      schedule()
    }
  }
}
