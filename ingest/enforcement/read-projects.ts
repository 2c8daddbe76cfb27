import { type Project, readProjects } from '../../platform/directory/read-keys.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ActiveQuota, QUOTA_COLUMNS, QUOTAS } from '../../schema/project-quotas.ts'
import { type ErasedIds, type ErasureRow, toErasedIds } from '../../schema/wire/erased-ids.ts'
import { createReadActiveRules, type KeyedRules } from './active-rules.ts'
import { createReadActiveSchemas, type ProjectSchemas } from './active-schemas.ts'

/** A project with everything that is enforced for its events: read with the keys, so that a known key has it. */
export interface EnforcedProject extends Project {
  /** The active schemas of its events; absent: none. */
  schemas?: ProjectSchemas
  /** The active rules of its events; absent: none. */
  rules?: KeyedRules
  /** How many events it may send; absent: any number. */
  quota?: ActiveQuota
  /** Ids whose past events are not stored again; absent: none. */
  erased?: ErasedIds
}

/** Returns a function that reads all projects with the active schemas, rules and quotas. */
export function createReadEnforced (sql: Sql, logger: Logger): () => Promise<EnforcedProject[]> {
  const readSchemas = createReadActiveSchemas(sql, logger)
  const readRules = createReadActiveRules(sql, logger)
  return async function readEnforced () {
    const [projects, schemas, rules, quotas, erasures] = await Promise.all([
      readProjects(sql),
      readSchemas(),
      readRules(),
      sql<(ActiveQuota & { projectId: number })[]>`
        SELECT q.project_id AS "projectId", ${sql.unsafe(QUOTA_COLUMNS)} FROM ${sql.unsafe(QUOTAS)}`,
      sql<ErasureRow[]>`SELECT project_id, salt, hashes, requested_at, filter FROM erasures`
    ])
    const quotaOf = new Map(quotas.map(({ projectId, ...quota }) => [projectId, quota]))
    const erasedIds = toErasedIds(erasures)
    return projects.map((project) => {
      const { id } = project
      const [ofSchemas, ofRules, quota, erased] = [schemas.get(id), rules.get(id), quotaOf.get(id), erasedIds.get(id)]
      return {
        ...project,
        ...ofSchemas !== undefined && { schemas: ofSchemas },
        ...ofRules !== undefined && { rules: ofRules },
        ...quota !== undefined && { quota },
        ...erased !== undefined && { erased }
      }
    })
  }
}
