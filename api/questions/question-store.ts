import { HttpError } from '../../engines/errors.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation } from '../../platform/postgres/postgres-errors.ts'
import { notFound } from '../http/errors.ts'
import type { Row } from '../http/json-schema.ts'
import { matchSearch, selectPage } from '../http/list-queries.ts'
import type { PageContent, PageQuery } from '../http/pagination.ts'
import { selectCreatedBy } from '../projects/users.ts'
import type { questionSchema } from './question-schemas.ts'

/** Questions of a project. */
const MAX_QUESTIONS = 1000

/** A question as answers show it. */
export type StoredQuestion = Row<typeof questionSchema>

export type QuestionFields = Partial<Pick<StoredQuestion, 'name' | 'description' | 'definition'>>

export interface QuestionKey { projectId: number, id: number }

export interface QuestionQuery extends PageQuery {
  search?: string
  after?: string
}

function columns (sql: Sql): Statement {
  return sql`q.id, q.project_id AS team_id, q.name, q.description, q.definition, ${selectCreatedBy(sql, sql`q.created_by`)},
    q.created_at, q.updated_at`
}

export async function listQuestions (
  sql: Sql, projectId: number, query: QuestionQuery
): Promise<PageContent<StoredQuestion>> {
  return await selectPage<StoredQuestion>(sql, query, {
    order: 'name', kind: 'text', select: columns(sql), from: sql`questions AS q`, key: sql`q.name COLLATE "C"`,
    keyOf: ({ name }) => name, where: sql`q.project_id = ${projectId} AND ${matchSearch(sql, sql`q.name`, query.search)}`
  })
}

/** @throws {HttpError} 404 when the project has no such question. */
export async function findQuestion (sql: Sql, { projectId, id }: QuestionKey): Promise<StoredQuestion> {
  const [found] = await sql<StoredQuestion[]>`
    SELECT ${columns(sql)} FROM questions AS q WHERE q.project_id = ${projectId} AND q.id = ${id}`
  if (found === undefined) throw notFound()
  return found
}

/** @throws {HttpError} 400 naming the field that cannot be stored. */
export async function createQuestion (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number }, fields: QuestionFields & { name: string }
): Promise<StoredQuestion> {
  check(fields)
  const { name, definition = {}, description = '' } = fields
  const id = await sql.begin(async (tx) => {
    // Those who create at the same time take turns, so that the count holds.
    await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
    const [counted] = await tx<[{ count: number }]>`SELECT count(*)::integer AS count FROM questions WHERE project_id = ${projectId}`
    if (counted.count >= MAX_QUESTIONS) throw invalid('name', 'invalid_input', `A project has at most ${MAX_QUESTIONS} questions: delete one first.`)
    const [stored] = await tx<{ id: number }[]>`
      INSERT INTO questions (project_id, name, description, definition, created_by)
      VALUES (${projectId}, ${name}, ${description}, ${tx.json(definition)}, ${userId})
      ON CONFLICT (project_id, name) DO NOTHING RETURNING id`
    if (stored === undefined) throw notUnique()
    return stored.id
  })
  return await findQuestion(sql, { projectId, id })
}

/** @throws {HttpError} 404; 400 naming the field that cannot be stored. */
export async function updateQuestion (sql: Sql, key: QuestionKey, fields: QuestionFields): Promise<StoredQuestion> {
  check(fields)
  const { name, description, definition } = fields
  const changed = await sql`
    UPDATE questions SET name = COALESCE(${name ?? null}, name), description = COALESCE(${description ?? null}, description),
      definition = COALESCE(${definition === undefined ? null : sql.json(definition)}, definition), updated_at = now()
    WHERE project_id = ${key.projectId} AND id = ${key.id} RETURNING id`.catch((error: unknown) => {
    throw isUniqueViolation(error) ? notUnique() : error
  })
  if (changed.length === 0) throw notFound()
  return await findQuestion(sql, key)
}

/** @throws {HttpError} 404 when the project has no such question. */
export async function deleteQuestion (sql: Sql, { projectId, id }: QuestionKey): Promise<void> {
  const deleted = await sql`DELETE FROM questions WHERE project_id = ${projectId} AND id = ${id} RETURNING id`
  if (deleted.length === 0) throw notFound()
}

function check ({ name, definition }: QuestionFields): void {
  if (name?.trim() === '') throw invalid('name', 'blank', 'This field may not be blank.')
  if (definition !== undefined) readQuestion(definition)
}

function notUnique (): HttpError {
  return invalid('name', 'unique', 'There is already a question with this name.')
}

function invalid (attr: string, code: string, detail: string): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}
