import { MillraceError } from '../../platform/errors.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { mintKey } from './mint-key.ts'

export interface RotatedKey {
  apiKey: string
  /** Keys that were current until now, accepted until `oldKeysExpireAt`. */
  oldKeys: string[]
  oldKeysExpireAt: Date
}

/**
 * Gives a project a new key. The old ones go on working for the grace period, because clients in browsers and phones
 * carry them for a while; a period that an earlier rotation set is never prolonged.
 *
 * @param options.graceSeconds  0 refuses the old keys at once.
 * @throws {MillraceError} `MILLRACE_PROJECT_UNKNOWN`.
 */
export async function rotateProjectKey (
  sql: Sql, options: { projectId: number, graceSeconds: number, now: Date }
): Promise<RotatedKey> {
  const oldKeysExpireAt = new Date(options.now.getTime() + options.graceSeconds * 1000)
  const apiKey = mintKey('phc_')
  return await sql.begin(async (tx) => {
    // The row lock lets two rotations take turns: the second one ends the key of the first.
    const [project] = await tx`SELECT id FROM projects WHERE id = ${options.projectId} FOR UPDATE`
    if (project === undefined) {
      throw new MillraceError('MILLRACE_PROJECT_UNKNOWN', `there is no project ${options.projectId}`)
    }
    const old = await tx<{ api_key: string }[]>`
      UPDATE project_api_keys SET expires_at = ${oldKeysExpireAt}
      WHERE project_id = ${options.projectId} AND kind = 'project' AND expires_at IS NULL
      RETURNING api_key`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${options.projectId})`
    return { apiKey, oldKeys: old.map((row) => row.api_key), oldKeysExpireAt }
  })
}
