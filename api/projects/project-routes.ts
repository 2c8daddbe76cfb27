import { invalidField } from '../../engines/errors.ts'
import { parseTimezone } from '../../engines/operators/match-date.ts'
import { mintKey } from '../../schema/key-text.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { array, bodyOf, object, optional } from '../http/json-schema.ts'
import { requireAllProjects } from '../http/personal-key-access.ts'
import type { Routes } from '../http/routes.ts'

/** How long a rotated key is accepted unless the request says otherwise, and at most, in seconds: a week, a year. */
const GRACE_SECONDS = 604_800
const MAX_GRACE_SECONDS = 31_536_000

/** Keys of a project that are listed at most; a project has one or two, and one more for each rotation. */
const MAX_KEYS = 1000

const projectKeySchema = object({
  api_key: { type: 'string', description: 'Public: every page that sends events contains it.' },
  kind: { type: 'string', enum: ['project', 'team'] },
  created_at: { type: 'string', format: 'date-time' },
  expires_at: { type: ['string', 'null'], format: 'date-time', description: 'A rotated key is accepted until then; null for a current one.' }
})

/** Of a new project; of a change nothing is required. */
export const newProjectSchema = bodyOf({
  name: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 200 },
  timezone: { type: 'string', maxLength: 100, description: 'IANA name. Days of reports begin in this time zone. UTC for a new project.' },
  week_starts: { type: 'string', enum: ['monday', 'sunday'], description: 'Default first day of the week in questions. Monday for a new project.' }
}, 'name')

const rotationSchema = optional({
  grace_seconds: {
    type: 'integer', minimum: 0, maximum: MAX_GRACE_SECONDS, default: GRACE_SECONDS,
    description: 'How long the old keys are accepted; 0: they stop working at once. A key that is already expiring keeps its expiry.'
  }
}, { additionalProperties: false })

const rotatedSchema = object({
  api_key: { type: 'string' },
  old_keys: { type: 'array', items: { type: 'string' } },
  old_keys_expire_at: { type: 'string', format: 'date-time' }
})

/** Makes projects, and shows and rotates the keys that SDKs send. */
export function projectRoutes (routes: Routes, { sql, now }: { sql: Sql, now: () => number }): void {
  routes.create('/projects', {
    summary: 'Create a project', body: newProjectSchema, answer: { $ref: 'Project#' },
    description: 'Returns the project API key. Requires a key for all projects.'
  }, async ({ body: { name, timezone, week_starts: weekStarts } }, access) => {
    requireAllProjects(access)
    const { id, apiKey } = await createProject(sql, { name, timezone: readTimezone(timezone ?? 'UTC'), weekStarts })
    const [project] = await sql`SELECT id, uuid, name, timezone, week_starts, anonymize_ips, created_at FROM projects WHERE id = ${id}`
    return { ...project, api_token: apiKey }
  })

  routes.get('/projects/:project_id/keys', {
    summary: 'List the keys of a project', description: 'Current keys first, then rotated keys with their expiry.',
    answer: object({ results: array(projectKeySchema) })
  }, async (request, { projectId }) => ({
    results: await sql`
      SELECT api_key, kind, created_at, expires_at FROM project_api_keys WHERE project_id = ${projectId}
      ORDER BY expires_at DESC NULLS FIRST, created_at, api_key LIMIT ${MAX_KEYS}`
  }))

  routes.post('/projects/:project_id/rotate_key', {
    summary: 'Rotate the key of a project', body: rotationSchema, answer: rotatedSchema,
    description: 'Previous keys are accepted for a grace period, because deployed pages and apps still send them.'
  }, async ({ body: { grace_seconds: graceSeconds = GRACE_SECONDS } }, { projectId }) => {
    const rotated = await rotateProjectKey(sql, { projectId, graceSeconds, now: new Date(now()) })
    return { api_key: rotated.apiKey, old_keys: rotated.oldKeys, old_keys_expire_at: rotated.oldKeysExpireAt }
  })
}

/** @throws {HttpError} 400 when there is no such zone. */
export function readTimezone (text: string): string {
  const timezone = parseTimezone(text)
  if (timezone !== null) return timezone
  const detail = `Unknown time zone "${text}": use an IANA name such as Europe/Berlin.`
  throw invalidField('timezone', detail)
}

interface NewProject {
  name: string
  timezone?: string | undefined
  /** `monday` or `sunday`. Default monday. */
  weekStarts?: string | undefined
  apiKey?: string | undefined
}

/** Creates a project together with its project API key. */
export async function createProject (
  sql: Sql, project: NewProject
): Promise<{ id: number, name: string, apiKey: string }> {
  const apiKey = project.apiKey ?? mintKey('phc_')
  return await sql.begin(async (tx) => {
    const [row] = await tx<[{ id: number, name: string }]>`
      INSERT INTO projects (name, timezone, week_starts)
      VALUES (${project.name}, ${project.timezone ?? 'UTC'}, ${project.weekStarts ?? 'monday'}) RETURNING id, name`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${row.id})`
    return { ...row, apiKey }
  })
}

/**
 * Gives a project a new key. The old keys keep working for the grace period, because clients in browsers and phones
 * still send them. The grace period of an earlier rotation is never extended.
 *
 * @param options.graceSeconds  0: the old keys stop working at once.
 * @returns the new key, and those that were current until now.
 */
export async function rotateProjectKey (
  sql: Sql, options: { projectId: number, graceSeconds: number, now: Date }
): Promise<{ apiKey: string, oldKeys: string[], oldKeysExpireAt: Date }> {
  const oldKeysExpireAt = new Date(options.now.getTime() + options.graceSeconds * 1000)
  const apiKey = mintKey('phc_')
  return await sql.begin(async (tx) => {
    // The row lock serialises concurrent rotations: the second one expires the key of the first.
    await tx`SELECT id FROM projects WHERE id = ${options.projectId} FOR UPDATE`
    const old = await tx<{ api_key: string }[]>`
      UPDATE project_api_keys SET expires_at = ${oldKeysExpireAt}
      WHERE project_id = ${options.projectId} AND kind = 'project' AND expires_at IS NULL
      RETURNING api_key`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${options.projectId})`
    return { apiKey, oldKeys: old.map((row) => row.api_key), oldKeysExpireAt }
  })
}
