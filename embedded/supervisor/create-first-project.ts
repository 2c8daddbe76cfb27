import { createLoginLink } from '../../console/server/sessions.ts'
import { hashPersonalKey, maskKey } from '../../schema/key-text.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'

export type FirstProject = Awaited<ReturnType<typeof createFirstProject>>

/** The link is used right after the start, if at all, in milliseconds. */
const LOGIN_LINK_MS = 15 * 60_000

/**
 * Creates project 1 with its key, and the first user with a personal key, in a database without projects. Changes
 * nothing in any other, but for a link that logs in to the console. Safe to call from several processes at once, and
 * again after a crash.
 *
 * @param options.databaseUrl  A migrated database.
 */
export async function createFirstProject (
  options: { databaseUrl: string, projectApiKey: string, personalApiKey: string }
) {
  const sql = connectPostgres({ url: options.databaseUrl, max: 1 })
  try {
    const created = await createUnlessAny(sql, options)
    const [project] = await sql<{ api_key: string }[]>`
      SELECT api_key FROM project_api_keys
      WHERE kind = 'project' AND (expires_at IS NULL OR expires_at > now())
      ORDER BY project_id, expires_at NULLS FIRST, created_at DESC LIMIT 1`
    const [key] = await sql`
      SELECT 1 FROM personal_api_keys
      WHERE secure_value = ${hashPersonalKey(options.personalApiKey)} AND revoked_at IS NULL`
    const loginLink = key === undefined
      ? null
      : await createLoginLink(sql, { personalKey: options.personalApiKey, lifetimeMs: LOGIN_LINK_MS, now: Date.now() })
    return {
      /** The key that SDKs use now; another than asked for when the database existed before. */
      projectApiKey: project?.api_key ?? '',
      /** False when the asked personal key is not in the database, so that it would be refused. */
      knowsPersonalKey: key !== undefined,
      created,
      /** Token of a link that logs in to the console once; null when the personal key is not known. */
      loginLink
    }
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function createUnlessAny (
  sql: Sql, { projectApiKey, personalApiKey }: { projectApiKey: string, personalApiKey: string }
): Promise<boolean> {
  return await sql.begin(async (tx) => {
    // Anyone who comes second waits here, and then finds the project of the first.
    await tx`LOCK TABLE projects IN SHARE ROW EXCLUSIVE MODE`
    const [existing] = await tx`SELECT 1 FROM projects LIMIT 1`
    if (existing !== undefined) return false
    await tx`INSERT INTO projects (id, name) VALUES (1, 'Default project')`
    // The next project gets number 2.
    await tx`SELECT setval(pg_get_serial_sequence('projects', 'id'), 1)`
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${projectApiKey}, 1)`
    const [user] = await tx<{ id: number }[]>`
      INSERT INTO users (email, first_name) VALUES ('admin@millrace.localhost', 'Admin')
      ON CONFLICT (email) DO UPDATE SET email = excluded.email
      RETURNING id`
    await tx`
      INSERT INTO personal_api_keys (user_id, label, secure_value, mask_value)
      VALUES (${user?.id ?? 0}, 'first key', ${hashPersonalKey(personalApiKey)}, ${maskKey(personalApiKey)})
      ON CONFLICT (secure_value) DO NOTHING`
    return true
  })
}
