import type { FastifyInstance, FastifyReply } from 'fastify'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { resolveRange } from '../../../engines/questions/calendar.ts'
import { cohortsOf, eventsOf, expandCohorts, hasBehavior, readCohort } from '../../../engines/questions/cohort-definition.ts'
import { type Cell, compilePersons, eventNamesOf } from '../../../engines/questions/compile-question.ts'
import type { Question } from '../../../engines/questions/question.ts'
import { readNewQuestion, readQuestion } from '../../../engines/questions/read-question.ts'
import type { SqlTemplates } from '../../../platform/postgres/connect-postgres.ts'
import { toDistinctId } from '../../../schema/wire/identity.ts'
import { orNotFound } from '../../http/answer-errors.ts'
import { array, bodyOf, boolean, integer, object, string, timeOrNull, type Value } from '../../http/json-schema.ts'
import { shownName } from '../../http/list-queries.ts'
import type { Access } from '../../http/personal-key-access.ts'
import { idParams } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'
import { type Asking, atMoment, listPersonsBehind, type QuestionDeps, readSeen } from '../../questions/answer-question.ts'
import { ask, readCell } from '../../questions/question-routes.ts'
import { asOfSchema, cellSchema, definitionSchema } from '../../questions/question-schemas.ts'
import { placesOf, readUsedCohorts, requireCohorts } from '../../questions/used-cohorts.ts'
import { openFlagWriter } from './write-feature-flag.ts'

const MAX_COHORTS = 10_000
const MAX_MEMBERS = 1_000_000

/** Persons of one insert. */
const MEMBERS_AT_ONCE = 20_000

const filtersSchema = {
  type: 'object', additionalProperties: true,
  description: '`{type: AND | OR, values: [...]}`, nested: filters as in flag conditions, each optionally with `negation`, or of type `behavioral` (docs/query/questions.md).'
} as const

const questionSchema = object({ definition: definitionSchema, cell: cellSchema }, { additionalProperties: false })

const cohortSchema = object({
  id: integer,
  name: string,
  kind: { ...string, enum: ['properties', 'behavior', 'question', 'list'], description: 'All but `list` are living: their members are refreshed every few minutes.' },
  is_static: { ...boolean, description: 'true: a fixed list of persons: those of the given distinct ids, or those behind a number when the cohort was created.' },
  filters: { ...filtersSchema, type: ['object', 'null'], description: 'As written; null for a list and a question.' },
  question: { ...questionSchema, type: ['object', 'null'], description: 'The number in an answer whose persons are the members; null for other kinds.' },
  people: { type: ['integer', 'null'], description: 'Number of members as of `as_of`; for a list, as of now. Null: not counted yet.' },
  as_of: { ...timeOrNull, description: 'Time of the last refresh. Questions use its members, and so do flags, except for a cohort by properties. Null: none yet.' },
  error: { ...string, description: 'Why the last refresh failed, which keeps the previous members; empty if it succeeded.' }
}, { $id: 'Cohort' })

const useSchema = object({ kind: { ...string, enum: ['flag', 'cohort', 'question', 'experiment'] }, id: integer, name: string })

const newCohortSchema = bodyOf({
  name: { ...string, minLength: 1, pattern: '\\S', maxLength: 400 }, filters: filtersSchema,
  question: {
    ...questionSchema,
    description: 'Instead of `filters`: a number in an answer, whose persons become the members. Also requires the scopes query:read and person:read.'
  },
  living: { ...boolean, description: 'With `question`: true: members are refreshed every few minutes; false: the stored persons as of `as_of`.' },
  as_of: { ...asOfSchema, description: `With \`question\`: ${asOfSchema.description} For a living cohort, it only decides which days a range such as "the last 30 days" means.` },
  distinct_ids: { ...array({ ...string, minLength: 1 }, { maxItems: 100_000 }), description: 'Instead of `filters`: a list of stored persons.' }
}, 'name')

const one = { $ref: 'Cohort#' }

interface CohortRow { id: number, isStatic: boolean, filters: unknown, question: unknown }

export async function cohortRoutes (app: FastifyInstance, deps: QuestionDeps): Promise<void> {
  const { sql } = deps
  const routes = routesOf(app, { tag: 'feature flags', object: 'feature_flag' })
  app.addSchema(cohortSchema)

  routes.get('/', {
    summary: 'List cohorts', description: `By name, at most ${MAX_COHORTS}.`, answer: object({ results: array(one) })
  }, async (request, access) => ({
    results: (await sql<CohortRow[]>`
      ${selectCohorts(sql)} WHERE project_id = ${access.projectId} AND NOT deleted ORDER BY lower(${shownName(sql, sql`name`, access)}), id LIMIT ${MAX_COHORTS}`).map(toCohort)
  }))

  routes.get('/:id', {
    summary: 'Retrieve a cohort and what uses it', params: idParams,
    answer: object({
      ...cohortSchema.properties, used_by: array(useSchema),
      unknown_events: { ...array(string), description: 'Event names in the definition that the project has never received; empty while ClickHouse is unavailable.' }
    })
  }, async ({ params: { id } }, { projectId }) => {
    const cohort = await readCohortById(sql, projectId, id)
    const unknown = await findUnknownEvents(deps, projectId, cohort)
    return { ...cohort, used_by: await findUses(sql, projectId, id), unknown_events: unknown }
  })

  routes.post('/:id/refresh', {
    summary: 'Refresh the members of a cohort', description: 'Starts within seconds; `as_of` shows when it is done.', params: idParams, answer: one
  }, async ({ params: { id } }, { projectId, userId, keyHash }) => await sql.begin(async (tx) => {
    await openFlagWriter(tx, { projectId, userId, keyHash })
    await tx`UPDATE cohorts SET refresh_requested_at = now() WHERE project_id = ${projectId} AND id = ${id} AND NOT deleted`
    return await readCohortById(tx, projectId, id)
  }))

  routes.create('/', {
    summary: 'Create a cohort', body: newCohortSchema, answer: one,
    description: 'All persons who match the filters, the persons behind a number of a question, or a list. A cohort cannot be changed; create another one instead.'
  }, async ({ body: { name, filters, question, living = false, as_of: asOf, distinct_ids: ids } }, access, reply) => {
    if ([filters, question, ids].filter((each) => each !== undefined).length !== 1) throw invalidField('filters', 'Give exactly one of filters, question and distinct_ids.')
    if (question === undefined && (living || asOf !== undefined)) throw invalidField(living ? 'living' : 'as_of', 'It requires a question.')
    // Before the transaction, which would wait for ClickHouse.
    const { members, living: number }: Found = question === undefined
      ? { members: [] }
      : await readNumber(question, access, reply, { ...deps, asOf, living })
    await requireCohorts(sql, access.projectId, { filters })
    return await sql.begin(async (tx) => {
      const { definitions } = await openFlagWriter(tx, access)
      // What ClickHouse cannot compute would be a cohort without members, and an error.
      if (filters !== undefined) {
        expandCohorts(readCohort(filters), (id) => definitions.cohorts.find((cohort) => cohort.id === id)?.filters)
      }
      const row = filters !== undefined
        ? { filters: tx.json(filters) }
        : number === undefined ? { is_static: true } : { question: tx.json(number) }
      const [{ id }] = await tx<[{ id: number }]>`
        INSERT INTO cohorts ${tx({ project_id: access.projectId, name, ...row })} RETURNING id`
      for (let at = 0; at < members.length; at += MEMBERS_AT_ONCE) {
        await tx`
          INSERT INTO cohort_members (cohort_id, person_id)
          SELECT ${id}, id FROM persons WHERE project_id = ${access.projectId} AND uuid = ANY (${members.slice(at, at + MEMBERS_AT_ONCE)}::uuid[])`
      }
      if (ids !== undefined) {
        await tx`
          INSERT INTO cohort_members (cohort_id, person_id) SELECT DISTINCT ${id}::integer, person_id FROM person_distinct_ids
          WHERE project_id = ${access.projectId} AND distinct_id = ANY (${ids.map(toDistinctId)})`
      }
      return await readCohortById(tx, access.projectId, id)
    })
  })

  routes.delete('/:id', {
    summary: 'Delete a cohort', params: idParams, description: 'Refused while a flag, an experiment, a question or another cohort refers to it.'
  }, async ({ params: { id } }, { projectId, userId, keyHash }) => await sql.begin(async (tx) => {
    await openFlagWriter(tx, { projectId, userId, keyHash })
    await readCohortById(tx, projectId, id)
    const users = (await findUses(tx, projectId, id)).map(({ kind, id, name }) =>
      kind === 'cohort' ? `the cohort ${id}` : `the ${kind === 'flag' ? 'feature flag' : kind} ${name}`)
    if (users.length > 0) throw new HttpError(400, 'validation_error', 'has_dependents', `The cohort is used by ${users.slice(0, 10).join(', ')}.`)
    await tx`UPDATE cohorts SET deleted = true WHERE project_id = ${projectId} AND id = ${id}`
    await tx`DELETE FROM cohort_members WHERE cohort_id = ${id}`
  }))
}

const selectCohorts = (sql: SqlTemplates) => sql`
  SELECT c.id, c.name, c.is_static AS "isStatic", c.filters, c.question - 'place' AS question, r.refreshed_at AS as_of, coalesce(r.error, '') AS error,
    CASE WHEN c.is_static THEN (SELECT count(*)::integer FROM cohort_members WHERE cohort_id = c.id) ELSE r.people::integer END AS people
  FROM cohorts AS c LEFT JOIN cohort_refreshes AS r ON r.cohort_id = c.id`

function toCohort ({ isStatic, ...row }: CohortRow) {
  const kind = isStatic ? 'list' : row.question !== null ? 'question' : hasBehavior(row.filters) ? 'behavior' : 'properties'
  return { ...row, is_static: isStatic, kind }
}

async function readCohortById (sql: SqlTemplates, projectId: number, id: number): Promise<ReturnType<typeof toCohort>> {
  const [row] = await sql<CohortRow[]>`${selectCohorts(sql)} WHERE c.project_id = ${projectId} AND c.id = ${id} AND NOT c.deleted`
  return toCohort(orNotFound(row))
}

async function findUnknownEvents (deps: QuestionDeps, projectId: number, { filters, question }: Pick<CohortRow, 'filters' | 'question'>): Promise<string[]> {
  try {
    const names = question === null ? eventsOf(filters) : eventNamesOf(readQuestion(fieldsOf(question)['definition']))
    return names.length === 0 ? [] : (await readSeen(deps, projectId, names)).unknown
  } catch {
    // Safe to ignore: the cohort has a field for what is wrong with it.
    return []
  }
}

interface Use { kind: string, id: number, name: string }

/** What names a cohort. */
async function findUses (sql: SqlTemplates, projectId: number, id: number): Promise<Use[]> {
  const found = await sql<(Use & { value: unknown })[]>`
    SELECT 'flag' AS kind, id, key AS name, filters AS value FROM feature_flags WHERE project_id = ${projectId} AND NOT deleted
    UNION ALL SELECT 'cohort', id, name, coalesce(filters, question) FROM cohorts WHERE project_id = ${projectId} AND NOT deleted
    UNION ALL SELECT 'question', id, name, definition FROM questions WHERE project_id = ${projectId}
    UNION ALL SELECT 'experiment', id, name, jsonb_build_array(filters, parameters, secondary_metrics) FROM experiments WHERE project_id = ${projectId} AND NOT deleted`
  return found.filter(({ value }) => cohortsOf(value).has(id)).map(({ value, ...use }) => use)
}

interface Found { members: string[], living?: Value<typeof questionSchema> & { place: Cell } }

/** The persons behind a number, or what finds them again and again. @throws {HttpError} 400, 403. */
async function readNumber (
  { definition, cell }: Value<typeof questionSchema>, access: Access, reply: FastifyReply,
  { asOf, living, ...deps }: QuestionDeps & { asOf: string | undefined, living: boolean }
): Promise<Found> {
  for (const scope of ['query:read', 'person:read'] as const) access.requireScope(scope)
  try {
    const question = readNewQuestion(definition)
    const place = readCell(question, cell)
    await requireCohorts(deps.sql, access.projectId, { definition })
    return await ask(access, reply, deps, async (asking) => {
      if (!living) return { members: await findMembers(question, place, asking, asOf) }
      const days = await fixDays(question, place, asking, asOf)
      return { members: [], living: { definition: { ...definition, ...days }, cell, place } }
    })
  } catch (error) {
    if (!(error instanceof HttpError) || !/^(?:cell|definition)__/.test(error.attr ?? '')) throw error
    throw invalidField(`question__${error.attr}`, error.detail, error.code, error)
  }
}

/** The range of a number of one period, which stays that of its days. @throws {HttpError} 400. */
async function fixDays (question: Question, cell: Cell, asking: Asking, asOf: string | undefined): Promise<object> {
  const range = resolveRange(question, atMoment(asking, asOf))
  compilePersons(question, cell, { projectId: asking.projectId, range, limit: 1 })
  await readUsedCohorts(asking.sql, asking.projectId, placesOf(question))
  const isOfPeriod = 'start' in cell && cell.start !== null && !('isPrevious' in cell && cell.isPrevious)
  return isOfPeriod ? { range: { from: range.firstDay, to: range.lastDay } } : {}
}

/** The persons behind it, as far as ClickHouse knows them. @throws {HttpError} 400 for too many of them. */
async function findMembers (
  question: Question, cell: Cell, asking: Asking, asOf: string | undefined
): Promise<string[]> {
  const { people, results } = await listPersonsBehind(question, cell, asking, { limit: MAX_MEMBERS, asOf })
  if (people > MAX_MEMBERS) throw invalidField('question', `A cohort can have at most ${MAX_MEMBERS} members, not ${people}.`)
  return results.map(({ person_id: person }) => person)
}
