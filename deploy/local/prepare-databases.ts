import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { MillraceError } from '../../platform/errors.ts'
import type { FirstProject } from './create-first-project.ts'

/** What the databases of a stack are prepared with. */
export interface PrepareDatabasesOptions {
  databaseUrl: string
  clickhouseUrl: string
  /** Empty: one node. */
  cluster: string
  /** Creates the database of `databaseUrl` when it is missing: on an embedded Postgres. */
  createDatabase: boolean
  /** Keys of the first project and user, if there is none. */
  projectApiKey: string
  personalApiKey: string
}

/** What the process answers with. */
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
    ({ code, message, stack = message }: Error & { code?: string }): Answer => ({
      failure: { ...code === undefined ? {} : { code }, message, stack }
    })
  )
  process.stdout.write(JSON.stringify(answer))
}

async function prepare (job: PrepareDatabasesOptions): Promise<FirstProject> {
  const [{ ensureDatabase }, { migrateAll }, { createFirstProject }] = await Promise.all([
    import('./services/ensure-database.ts'), import('../../schema/migrate/migrate-all.ts'), import('./create-first-project.ts')
  ])
  if (job.createDatabase) await ensureDatabase(job.databaseUrl)
  await migrateAll({ ...job, topology: job.cluster === '' ? {} : { cluster: job.cluster } })
  return await createFirstProject(job)
}
