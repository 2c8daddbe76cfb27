import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { MillraceError } from '../../engines/errors.ts'
import type { FirstProject } from './create-first-project.ts'

export interface PrepareDatabasesOptions {
  databaseUrl: string
  clickhouseUrl: string
  /** Empty: one node. */
  cluster: string
  /** Creates the database of `databaseUrl` when it is missing: on an embedded Postgres. */
  createDatabase: boolean
  /** Keys of the first project and user, created if missing. */
  projectApiKey: string
  personalApiKey: string
}

type Answer = { project: FirstProject } | { failure: { code?: string, message: string, stack: string } }

/**
 * Brings the schemas of both databases up to this version and creates the first project, in a process of its own: the
 * clients and the migrations are needed at the start only.
 *
 * @param options.env  Of that process.
 * @param options.signal  Kills it.
 * @throws {MillraceError} with its own code when the process failed with one, a migration for example.
 */
export async function prepareDatabases (
  job: PrepareDatabasesOptions, { env, signal }: { env: NodeJS.ProcessEnv, signal: AbortSignal }
): Promise<FirstProject> {
  const child = spawn(process.execPath, [import.meta.filename], { env, signal, stdio: ['pipe', 'pipe', 'pipe'] })
  // A process that ends before it has read its input says why.
  child.stdin.on('error', () => {})
  child.stdin.end(JSON.stringify(job))
  const [answer, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (answer === '') throw new Error(`the process that prepares the databases ended without an answer: ${errors}`)
  return readAnswer(answer)
}

function readAnswer (json: string): FirstProject {
  const answer = JSON.parse(json) as Answer
  if ('project' in answer) return answer.project
  const { code, message, stack } = answer.failure
  if (code?.startsWith('MILLRACE_') === true) throw new MillraceError(code, message)
  throw Object.assign(new Error(message), { stack })
}

if (import.meta.main) {
  const { json } = await import('node:stream/consumers')
  const answer = await prepare(await json(process.stdin) as PrepareDatabasesOptions).then(
    (project): Answer => ({ project }),
    async (error: unknown): Promise<Answer> => {
      const { code, message, stack = message } = await explain(error) as Error & { code?: string }
      return { failure: { ...code === undefined ? {} : { code }, message, stack } }
    }
  )
  process.stdout.write(JSON.stringify(answer))
}

/** What only an operator can repair, said in one sentence: mostly a URL of a server of one's own that is wrong. */
async function explain (error: unknown): Promise<unknown> {
  if (error instanceof MillraceError) return error
  const [{ classifyPostgresError }, { classifyClickHouseError }] = await Promise.all([
    import('../../platform/postgres/postgres-errors.ts'), import('../../platform/clickhouse/clickhouse-errors.ts')
  ])
  const text = error instanceof Error ? error.message : String(error)
  const [postgres, clickhouse] = [classifyPostgresError(error), classifyClickHouseError(error)]
  const refuse = (setting: string, why: string): MillraceError => new MillraceError('MILLRACE_DATABASE_REFUSED',
    `${why} (${text}): correct ${setting}, or leave it empty for the embedded server`, { cause: error })
  if (postgres.isDown === true && clickhouse.isDown === true) return refuse('DATABASE_URL or CLICKHOUSE_URL', 'a database does not answer')
  if (postgres.action === 'repair') return refuse('DATABASE_URL', postgres.why)
  if (clickhouse.action === 'repair') return refuse('CLICKHOUSE_URL', `ClickHouse: ${clickhouse.why}`)
  return error
}

async function prepare (job: PrepareDatabasesOptions): Promise<FirstProject> {
  const [{ ensureDatabase }, { migrateAll }, { createFirstProject }] = await Promise.all([
    import('../postgres/ensure-database.ts'), import('../../schema/migrate/migrate-all.ts'), import('./create-first-project.ts')
  ])
  if (job.createDatabase) await ensureDatabase(job.databaseUrl)
  await migrateAll({ ...job, topology: job.cluster === '' ? {} : { cluster: job.cluster } })
  return await createFirstProject(job)
}
