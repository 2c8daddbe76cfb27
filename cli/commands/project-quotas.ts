import { type Command, InvalidArgumentError } from 'commander'
import { BEYOND, type Beyond, QUOTA_LIMITS } from '../../platform/quotas/quota-store.ts'
import type { Schema } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
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
        .map(([name, value]) => [name, value === 'none' ? null : value]))
      if (Object.keys(changes).length === 0) throw new InvalidArgumentError('give at least one of --per-second, --per-month, --burst, --beyond, --sample-rate')
      const api = await context.api()
      printQuota(context, await api.patch('/api/projects/{project_id}/quota', { params: { project_id: projectId }, body: changes }), output)
    })

  addProject(group.command('clear').description('remove the quota of a project'))
    .action(async (projectId: number, output: Output) => {
      const api = await context.api()
      await api.delete('/api/projects/{project_id}/quota', { params: { project_id: projectId } })
      await show(context, projectId, output)
    })

  addProject(projects.command('usage').description('count the events of a project by day of receipt, UTC'))
    .option('--days <number>', 'so many days, today included', readMost(366), 30)
    .action(async (projectId: number, { days, ...output }: Output & { days: number }) => {
      const from = new Date(context.now() - (days - 1) * DAY_MS).toISOString()
      const api = await context.api()
      const { results } = await api.get('/api/projects/{project_id}/usage', { params: { project_id: projectId }, query: { from } })
      printRows(context, results, [
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

async function show (context: CliContext, projectId: number, output: Output): Promise<void> {
  const api = await context.api()
  printQuota(context, await api.get('/api/projects/{project_id}/quota', { params: { project_id: projectId } }), output)
}

function printQuota (context: CliContext, { month, ...fields }: Schema<'Quota'>, output: Output): void {
  printFields(context, output.json === true
    ? { ...fields, month }
    : { ...fields, events_this_month: month?.events, counted_through: month?.counted_through }, output)
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
