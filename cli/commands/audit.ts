import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { auditLedger, driftError, type LedgerAudit } from '../../pipeline/accounting/audit-ledger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Answer } from '../../schema/api-types.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'
import { type CliContext, NO_ANSWER } from '../cli-context.ts'
import { readId, readInstant } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

interface AuditOptions extends Output {
  from?: Date
  to?: Date
  project?: number
}

const DAY_MS = 86_400_000

/** Ingest's clock may be ahead by so much. */
const AHEAD_MS = 3_600_000

/** Times that column `received_at` of a ledger can have: from 1970 to 2106. */
const LAST_MS = 4_294_967_295_000

/** `millrace audit`. */
export function addAuditCommands (program: Command, context: CliContext): void {
  program.command('audit')
    .description('count the stored events again and compare them with the books; fails when they differ')
    .option('--from <time>', 'events received at or after this time; default: a day before --to', readMoment)
    .option('--to <time>', 'events received before this time; default: now', readMoment)
    .option('--project <id>', 'events of this project; default: all', readId)
    .option(...JSON_OPTION)
    .action(async ({ project, ...options }: AuditOptions, command: Command) => {
      const to = Math.min(options.to?.getTime() ?? context.now(), context.now() + AHEAD_MS)
      const from = options.from?.getTime() ?? Math.max(0, to - DAY_MS)
      if (from >= to) command.error('error: --from must be before --to, and not in the future')
      const deps = {
        clickhouse: await context.clickhouse(), cluster: context.cluster(), connection: await context.nats()
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
    ['project', ({ project }) => project],
    ['accepted', ({ accepted }) => accepted],
    ['replayed', ({ replayed }) => replayed],
    ['stored', ({ stored }) => stored],
    ['duplicates', ({ duplicates }) => duplicates],
    ['dead letters', ({ deadLettered }) => deadLettered],
    ['deleted', ({ deleted }) => deleted],
    ['changing', ({ changing }) => changing],
    ['missing', ({ missing }) => missing],
    ['extra', ({ extra }) => extra],
    ['dropped', ({ dropped }) => dropped]
  ], {})
  write('')
  write(`waiting in the stream, on neither side: ${waitingMessages} messages`)
  if (unsettled > 0) write(`${unsettled} rows belong to inserts that do not end; ask again when the pipeline is healthy`)
  if (drift.length === 0) return write('drift: 0')
  write('')
  printRows(context, drift.slice(0, LISTED_MINUTES), [
    ['project', ({ project }) => project],
    ['minute of receipt', ({ minute }) => minute],
    ['missing', ({ missing }) => missing],
    ['extra', ({ extra }) => extra]
  ], {})
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

type Ingest = NonNullable<Answer<'/api/watermark'>['ingest']>[number]

/** `millrace watermark [forget]`. */
export function addWatermarkCommands (program: Command, context: CliContext): void {
  const group = program.command('watermark')
    .description('up to which moment of receipt everything is stored, and what it waits for')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      const api = await context.api()
      const { ingest, ...fields } = await api.get('/api/watermark')
      printFields(context, output.json === true ? { ...fields, ingest } : fields, output)
      if (ingest === null) {
        context.exitCode = NO_ANSWER
        context.stderr.write('nats does not answer: the ingest processes are not listed.\n')
      } else if (output.json !== true) {
        context.stdout.write('\n')
        printIngest(context, ingest)
      }
    })

  group.command('forget <id>')
    .description('stop waiting for the spool folder of an ingest process that is lost for good')
    .option('--yes', 'forget it; without it, the entry is only shown')
    .action(async (id: string, { yes }: { yes?: true }) => {
      const api = await context.api()
      const known = (await api.get('/api/watermark')).ingest?.filter((each) => each.id === id) ?? []
      if (known.length === 0) throw new MillraceError('MILLRACE_INGEST_UNKNOWN', `no spool folder has the id ${id}: see millrace watermark`)
      printIngest(context, known)
      if (yes === true) await api.delete('/api/watermark/ingest/{id}', { params: { id } })
      context.stderr.write(yes === true
        ? 'The watermark no longer waits for it.\n'
        : 'Nothing was forgotten. Add --yes to say that the folder is lost: events in it were acknowledged and will not be stored,\n' +
          'and the watermark will pass them. If the folder still exists, start an ingest process on its data directory instead.\n')
    })
}

function printIngest (context: CliContext, ingest: Ingest[]): void {
  printRows(context, ingest, [
    ['id', ({ id }) => id],
    ['host', ({ host }) => host],
    ['folder', ({ folder }) => folder],
    ['published through', ({ published_through: through }) => through],
    ['in flight', ({ in_flight: messages }) => messages],
    ['spool bytes', ({ spool_bytes: bytes }) => bytes],
    ['heard of', ({ reported_at: at }) => at],
    ['version', ({ version }) => version]
  ], {})
}
