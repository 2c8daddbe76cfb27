import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { mintKey } from '../../platform/directory/key-text.ts'

export interface NewProject {
  name: string
  /** IANA name. Default UTC. */
  timezone?: string | undefined
  /** Default: a new random one. */
  apiKey?: string | undefined
}

export interface CreatedProject {
  id: number
  name: string
  apiKey: string
}

/** Creates a project together with its project API key. */
export async function createProject (sql: Sql, project: NewProject): Promise<CreatedProject> {
  const apiKey = project.apiKey ?? mintKey('phc_')
  return await sql.begin(async (tx) => {
    const [row] = await tx<[{ id: number, name: string }]>`
      INSERT INTO projects (name, timezone) VALUES (${project.name}, ${project.timezone ?? 'UTC'}) RETURNING id, name`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${row.id})`
    return { ...row, apiKey }
  })
}

export interface RotatedKey {
  apiKey: string
  /** Keys that were current until now, accepted until `oldKeysExpireAt`. */
  oldKeys: string[]
  oldKeysExpireAt: Date
}

/**
 * Gives a project a new key. The old keys keep working for the grace period, because clients in browsers and phones
 * still send them. The grace period of an earlier rotation is never extended.
 *
 * @param options.graceSeconds  0: the old keys stop working at once.
 * @throws {MillraceError} `MILLRACE_PROJECT_NOT_FOUND`.
 */
export async function rotateProjectKey (
  sql: Sql, options: { projectId: number, graceSeconds: number, now: Date }
): Promise<RotatedKey> {
  const oldKeysExpireAt = new Date(options.now.getTime() + options.graceSeconds * 1000)
  const apiKey = mintKey('phc_')
  return await sql.begin(async (tx) => {
    // The row lock serialises concurrent rotations: the second one expires the key of the first.
    const [project] = await tx`SELECT id FROM projects WHERE id = ${options.projectId} FOR UPDATE`
    if (project === undefined) {
      throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${options.projectId}`)
    }
    const old = await tx<{ api_key: string }[]>`
      UPDATE project_api_keys SET expires_at = ${oldKeysExpireAt}
      WHERE project_id = ${options.projectId} AND kind = 'project' AND expires_at IS NULL
      RETURNING api_key`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${options.projectId})`
    return { apiKey, oldKeys: old.map((row) => row.api_key), oldKeysExpireAt }
  })
}
