import { type Command, InvalidArgumentError } from 'commander'
import { changeQuota, describeDay, describeQuota, type QuotaChanges } from '../../api/projects/project-quota.ts'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import { BEYOND, type Beyond, clearQuota, QUOTA_LIMITS, readQuotas, setQuota } from '../../platform/quotas/quota-store.ts'
import { dayOf, listUsage } from '../../platform/quotas/usage.ts'
import type { CliContext } from '../cli-context.ts'
import { requireProject } from '../optional-services.ts'
import { readCount, readId } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

interface SetOptions extends Output {
  perSecond?: number | 'none'
  burst?: number
  perMonth?: number | 'none'
  beyond?: Beyond
  sampleRate?: number
}

const DAY_MS = 86_400_000

/** `millrace projects quota show|set|clear` and `millrace projects usage`. */
export function addQuotaCommands (projects: Command, context: CliContext): void {
  const group = projects.command('quota').description('how many events a project may send')

  addProject(group.command('show').description('show the quota of a project, and how many events of the month are counted'))
    .action(async (projectId: number, output: Output) => { await show(context, projectId, output) })

  addProject(group.command('set').description('change the quota of a project; what is not named stays. Ingest has it within a second'))
    .option('--per-second <number>', 'events a second, of each ingest process; none: no limit', readLimit(QUOTA_LIMITS.eventsPerSecond))
    .option('--burst <number>', 'events that may come at once after a silence; by default ten seconds\' worth', readMost(QUOTA_LIMITS.burst))
    .option('--per-month <number>', 'events of a calendar month of receipt, UTC; none: no limit', readLimit(QUOTA_LIMITS.eventsPerMonth))
    .option('--beyond <what>', 'beyond the quota: reject answers 429, sample stores the events of some people', readBeyond)
    .option('--sample-rate <share>', 'share of all distinct ids that is stored beyond the quota, such as 0.1', readShare)
    .action(async (projectId: number, { perSecond, burst, perMonth, beyond, sampleRate, ...output }: SetOptions) => {
      const given = { events_per_second: perSecond, burst, events_per_month: perMonth, beyond, sample_rate: sampleRate }
      const changes = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, value === 'none' ? null : value])) as QuotaChanges
      if (Object.keys(changes).length === 0) throw new InvalidArgumentError('give at least one of --per-second, --per-month, --burst, --beyond, --sample-rate')
      await change(context, projectId, changes)
      await show(context, projectId, output)
    })

  addProject(group.command('clear').description('remove the quota of a project'))
    .action(async (projectId: number, output: Output) => {
      await requireProject(context, projectId)
      await clearQuota(await context.postgres(), projectId)
      await show(context, projectId, output)
    })

  addProject(projects.command('usage').description('count the events of a project by day of receipt, UTC'))
    .option('--days <number>', 'so many days, today included', readMost(366), 30)
    .action(async (projectId: number, { days, ...output }: Output & { days: number }) => {
      await requireProject(context, projectId)
      const last = dayOf(context.now())
      const books = { clickhouse: await context.clickhouse(), cluster: context.cluster() }
      const found = await listUsage(books, projectId, { first: last - (days - 1) * DAY_MS, last })
      printRows(context, found.map(describeDay), [
        ['day', ({ day }) => day],
        ['events', ({ events }) => events],
        ['duplicates', ({ duplicates }) => duplicates],
        ['dead-lettered', ({ dead_lettered: letters }) => letters],
        ['dropped', ({ dropped }) => dropped],
        ['of them quota', ({ quota_sampled: sampled }) => sampled],
        ['refused requests', ({ refused_requests: refused }) => refused]
      ], output)
    })
}

function addProject (command: Command): Command {
  return command.argument('<id>', 'id of the project', readId).option(...JSON_OPTION)
}

async function change (context: CliContext, projectId: number, changes: QuotaChanges): Promise<void> {
  const sql = await context.postgres()
  await sql.begin(async (tx) => {
    await tx`SELECT 1 FROM projects WHERE id = ${projectId} FOR UPDATE`
    const before = (await readQuotas(tx, projectId)).get(projectId)
    const quota = naming(() => changeQuota(before, changes))
    if (quota === null && before === undefined) {
      throw wrong(WITHOUT_LIMIT)
    }
    if (quota === null) await clearQuota(tx, projectId)
    else await setQuota(tx, projectId, quota)
  })
}

const WITHOUT_LIMIT = 'give --per-second or --per-month: without a limit there is no quota'

/** Says which option is wrong instead of which field. */
function naming<T> (work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof HttpError && error.attr === 'burst') throw wrong('--burst needs --per-second')
    if (error instanceof HttpError) throw wrong(WITHOUT_LIMIT)
    throw error
  }
}

/** An error about options and the quota that the project has: the command line alone is not wrong. */
function wrong (message: string): MillraceError {
  return new MillraceError('MILLRACE_OPTIONS_INVALID', message)
}

async function show (context: CliContext, projectId: number, output: Output): Promise<void> {
  const quota = (await readQuotas(await context.postgres(), projectId)).get(projectId)
  if (quota === undefined) await requireProject(context, projectId)
  const { month, ...fields } = describeQuota(quota, context.now())
  if (output.json === true) return printFields(context, { ...fields, month }, output)
  const measured = month as { events: number, counted_through: Date } | null
  printFields(context, {
    ...fields, events_this_month: measured?.events, counted_through: measured?.counted_through
  }, output)
}

function readMost (most: number): (text: string) => number {
  return (text) => {
    const count = readCount(text)
    if (count > most) throw new InvalidArgumentError(`Give at most ${most}.`)
    return count
  }
}

function readLimit (most: number): (text: string) => number | 'none' {
  return (text) => text === 'none' ? text : readMost(most)(text)
}

function readBeyond (text: string): Beyond {
  const found = BEYOND.find((beyond) => beyond === text)
  if (found === undefined) throw new InvalidArgumentError(`Give ${BEYOND.join(' or ')}.`)
  return found
}

function readShare (text: string): number {
  const share = Number(text)
  if (!/^0?\.\d+$/.test(text) || share < QUOTA_LIMITS.minSampleRate || share >= 1) {
    throw new InvalidArgumentError(`Give a share of at least ${QUOTA_LIMITS.minSampleRate} and below 1, such as 0.1.`)
  }
  return share
}
