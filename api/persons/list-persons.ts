import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { cursorQueryProperties, cutPage, decodeCursor, encodeCursor } from '../http/list-queries.ts'
import { type PageContent, pageQueryProperties } from '../http/pagination.ts'
import { object, type Row, type Value } from '../http/json-schema.ts'

/** A person as lists show it. */
export type ListedPerson = Row<typeof personSchema>

/** Distinct ids of a person in a list at most. A person of a shared account may have thousands. */
const SHOWN_IDS = 100

export const personSchema = object({
  id: { type: 'string', format: 'uuid', description: 'The person_id of events.' },
  uuid: { type: 'string', format: 'uuid', description: 'The same.' },
  name: { type: 'string', description: 'The first of its email, name and username, else a distinct id.' },
  distinct_ids: { type: 'array', items: { type: 'string' }, description: `In alphabetical order; ${SHOWN_IDS} at most.` },
  properties: { type: 'object', additionalProperties: true },
  is_identified: { type: 'boolean' },
  created_at: { type: 'string', format: 'date-time' }
}, { $id: 'Person' })

export type PersonQuery = Value<typeof personQuerySchema>

export const personQuerySchema = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...cursorQueryProperties,
    distinct_id: { type: 'string', description: 'Only the person of this distinct id.' },
    search: { type: 'string', maxLength: 400, description: 'Only persons of whom a distinct id begins with it.' }
  }
} as const

const ORDER = 'newest persons'

/** Lists a page of persons, newest first, with two queries. */
export async function listPersonPage (
  sql: Sql, projectId: number, query: PersonQuery
): Promise<PageContent<ListedPerson>> {
  const { distinct_id: distinctId, search, limit, offset } = query
  const [after] = decodeCursor(query.after, ORDER, ['integer']) ?? []
  const where = sql`project_id = ${projectId}
    ${distinctId === undefined ? sql`` : haveId(sql, projectId, sql`distinct_id = ${toDistinctId(distinctId)}`)}
    ${search === undefined ? sql`` : haveId(sql, projectId, sql`starts_with(distinct_id, ${toDistinctId(search)})`)}`
  const [[total], rows] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*) AS count FROM persons WHERE ${where}`,
    selectPersons(sql, sql`${where} ${after === undefined ? sql`` : sql`AND id < ${after}::bigint`}
      ORDER BY id DESC LIMIT ${limit + 1} OFFSET ${after === undefined ? offset : 0}`)
  ])
  const page = cutPage(rows, { limit, count: total?.count ?? 0, cursorOf: ({ row }) => encodeCursor(ORDER, [row]) })
  return { ...page, results: page.results.map(({ person }) => person) }
}

/** Reads one person by its current uuid; null when there is none. */
export async function readListedPerson (sql: Sql, projectId: number, uuid: string): Promise<ListedPerson | null> {
  const [found] = await selectPersons(sql, sql`project_id = ${projectId} AND uuid = ${uuid}`)
  return found?.person ?? null
}

function haveId (sql: Sql, projectId: number, condition: Statement): Statement {
  return sql`AND id IN (SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND ${condition})`
}

interface PersonRow {
  row: string
  uuid: string
  is_identified: boolean
  created_at: Date
  properties: string
  distinct_ids: string[]
}

async function selectPersons (sql: Sql, which: Statement): Promise<{ row: string, person: ListedPerson }[]> {
  const rows = await sql<PersonRow[]>`
    SELECT id::text AS row, uuid, is_identified, created_at, properties::text AS properties, ARRAY(
      SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id LIMIT ${SHOWN_IDS}
    ) AS distinct_ids
    FROM persons WHERE ${which}`
  return rows.map(({ row, uuid, properties: text, distinct_ids: ids, ...fields }) => {
    // `JSON.parse` of the driver would round long numbers.
    const properties = parseStoredJson(text) as ListedPerson['properties']
    const name = findName(properties) ?? ids[0] ?? uuid
    return { row, person: { id: uuid, uuid, name, distinct_ids: ids, properties, ...fields } }
  })
}

function findName (properties: Record<string, unknown>): string | undefined {
  return ['email', 'name', 'username'].map((key) => properties[key])
    .find((value): value is string => typeof value === 'string' && value !== '')
}
