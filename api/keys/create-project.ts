import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { mintKey } from './mint-key.ts'

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
    const [row] = await tx<{ id: number, name: string }[]>`
      INSERT INTO projects (name, timezone) VALUES (${project.name}, ${project.timezone ?? 'UTC'}) RETURNING id, name`
    if (row === undefined) throw new Error('the insert returned no row')
    await tx`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${row.id})`
    return { ...row, apiKey }
  })
}
