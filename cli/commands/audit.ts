import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { auditLedger, driftError, type LedgerAudit } from '../../pipeline/accounting/audit-ledger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'
import type { CliContext } from '../cli-context.ts'
import { readId, readInstant } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printRows } from '../terminal-output.ts'

const DAY_MS = 86_400_000

/** Ingest's clock may be ahead by so much. */
const AHEAD_MS = 3_600_000

/** Times that column `received_at` of a ledger can have: from 1970 to 2106. */
const LAST_MS = 4_294_967_295_000

export function addAuditCommands (program: Command, context: CliContext): void {
  program.command('audit')
    .description('count the stored events again and compare them with the books; fails when they differ')
    .option('--from <time>', 'events received at or after this time; default: a day before --to', readMoment)
    .option('--to <time>', 'events received before this time; default: now', readMoment)
    .option('--project <id>', 'events of this project; default: all', readId)
    .option(...JSON_OPTION)
    .action(async (options: Output & { from?: Date, to?: Date, project?: number }, command: Command) => {
      const { project } = options
      const to = Math.min(options.to?.getTime() ?? context.now(), context.now() + AHEAD_MS)
      const from = options.from?.getTime() ?? Math.max(0, to - DAY_MS)
      if (from >= to) command.error('error: --from must be before --to, and not in the future')
      const deps = {
        clickhouse: await context.clickhouse(), cluster: await context.cluster(), connection: await context.nats()
      }
      const audit = await auditLedger(deps, {
        from: minuteOfReceipt(from),
        to: minuteOfReceipt(to - 1) + 1,
        ...(project !== undefined && { projectId: project })
      })
      if (project !== undefined && audit.projects.length === 0) await requireProject(await context.postgres(), project)
      if (options.json === true) context.stdout.write(`${JSON.stringify(audit, null, 2)}\n`)
      else printAudit(context, audit)
      if (audit.drift.length > 0) throw driftError(audit)
    })
}

/** Minutes with drift that are listed; `--json` has all. */
const LISTED_MINUTES = 50

function printAudit (context: CliContext, audit: LedgerAudit): void {
  const { from, to, booksSince, projects, drift, unsettled, waitingMessages } = audit
  const write = (line: string): void => { context.stdout.write(`${line}\n`) }
  write(`Events received from ${from} to ${to}:`)
  if (booksSince === null || booksSince >= to) {
    const why = booksSince === null ? 'the pipeline has kept no books yet' : `the books begin at ${booksSince}`
    write(`nothing to compare: ${why}`)
    return
  }
  if (booksSince > from) write(`compared from ${booksSince} on, where the books begin`)
  write('accepted + replayed = stored + duplicates + dead letters + deleted + changing + missing - extra')
  write('')
  printRows(context, projects, [
    'project', 'accepted', 'replayed', 'stored', 'duplicates', ['dead letters', 'deadLettered'], 'deleted', 'changing', 'missing', 'extra', 'dropped'
  ], {})
  write('')
  write(`not compared, still in the stream: ${waitingMessages} messages`)
  if (unsettled > 0) write(`${unsettled} rows belong to unfinished inserts; run the audit again when the pipeline is healthy`)
  if (drift.length === 0) return write('drift: 0')
  write('')
  printRows(context, drift.slice(0, LISTED_MINUTES), ['project', ['minute of receipt', 'minute'], 'missing', 'extra'], {})
  if (drift.length > LISTED_MINUTES) write(`and ${drift.length - LISTED_MINUTES} more minutes`)
}

/** Nothing would look like an answer. */
async function requireProject (sql: Sql, id: number): Promise<void> {
  if ((await sql`SELECT 1 FROM projects WHERE id = ${id}`).length > 0) return
  throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${id}; npx millrace projects list shows all`)
}

function readMoment (text: string): Date {
  const moment = readInstant(text)
  if (moment.getTime() < 0 || moment.getTime() > LAST_MS) throw new InvalidArgumentError('Give a time from 1970 to 2106.')
  return moment
}
