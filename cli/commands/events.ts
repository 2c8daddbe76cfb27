import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Schema } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { readCount, readId, readInstant } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

interface TailOptions {
  project: number
  event?: string
  distinctId?: string
  limit?: number
  json?: boolean
}

/** `millrace events tail`. */
export function addEventsCommands (program: Command, context: CliContext): void {
  const group = program.command('events').description('watch the events of a project')
  group.command('tail')
    .description('show events as they arrive, also those that are dropped and why, until Ctrl-C')
    .option('--project <id>', 'project of the events', readId, 1)
    .option('--event <name>', 'only events of this name')
    .option('--distinct-id <id>', 'only events of this distinct id')
    .option('--limit <count>', 'end after as many events', readCount)
    .option('--json', 'write one JSON object a line, with the event as it was sent')
    .action(async (options: TailOptions) => { await tail(context, options) })
}

async function tail (
  context: CliContext, { project, event, distinctId, limit = Infinity, json }: TailOptions
): Promise<void> {
  context.endAtInterrupt()
  const api = await context.api()
  let [left, missed] = [limit, 0]
  const lines = api.follow('/api/projects/{project_id}/events/live', {
    params: { project_id: project }, query: { event, distinct_id: distinctId }
  })
  for await (const line of lines) {
    // Others only keep the connection alive.
    if (!line.startsWith('data: ')) continue
    const { connected, events, matched, shown }: Schema<'FeedBatch'> = JSON.parse(line.slice(6))
    for (const each of events.slice(0, left)) context.stdout.write(`${json === true ? JSON.stringify(each) : toLine(each)}\n`)
    left -= events.length
    if (left <= 0) return
    if (!connected) context.stderr.write('nats does not answer: no event is seen until it does.\n')
    if (matched - shown > missed) context.stderr.write(`${matched - shown - missed} events came faster than they can be shown.\n`)
    missed = matched - shown
  }
  throw new MillraceError('MILLRACE_API_UNAVAILABLE', 'the API has ended the feed')
}

/** Texts of clients must not reach the terminal with their control characters. */
function toLine ({ at, uuid, event, distinctId, drop, isQuarantined }: Schema<'FeedBatch'>['events'][number]): string {
  const outcome = drop === null ? isQuarantined ? '  quarantined' : '' : `  dropped: ${drop}`
  return `${new Date(at).toISOString()}  ${uuid}  ${event}  ${distinctId}${outcome}`.replaceAll(/\p{Cc}/gu, '?')
}

interface EventOptions extends Output {
  project: number
  timestamp?: Date
  distinctId?: string
  limit: number
}

type Receipt = Schema<'Receipt'>

/** `millrace event <uuid>` and `millrace event --distinct-id <id>`. */
export function addEventCommands (program: Command, context: CliContext): void {
  program.command('event')
    .description('find out what became of an event, or of the newest events of a distinct id')
    .argument('[uuid]', 'its uuid, as the SDK sent it')
    .option('--distinct-id <id>', 'list the newest events of this distinct id instead')
    .option('--limit <number>', 'events to list at most', readCount, 20)
    .option('--project <id>', 'project of the event', readId, 1)
    .option('--timestamp <time>', 'when the event happened (ISO 8601), if its uuid is not version 7', readInstant)
    .option(...JSON_OPTION)
    .action(async (uuid: string | undefined, options: EventOptions) => {
      if (uuid === undefined && options.distinctId === undefined) throw new InvalidArgumentError('give the uuid of an event, or --distinct-id')
      if (uuid === undefined) await printList(context, options)
      else await printOne(context, { ...options, uuid })
    })
}

async function printOne (
  context: CliContext, { uuid, project, timestamp, ...output }: EventOptions & { uuid: string }
): Promise<void> {
  const api = await context.api()
  const receipt = await api.get('/api/projects/{project_id}/events/{uuid}/receipt', {
    params: { project_id: project, uuid }, query: { timestamp: timestamp?.toISOString() }
  })
  const shown = output.json === true ? { ...receipt, project } : { uuid: receipt.uuid, project, ...flatten(receipt) }
  printFields(context, shown, output)
}

async function printList (context: CliContext, { project, distinctId, limit, ...output }: EventOptions): Promise<void> {
  const api = await context.api()
  const { results, searched } = await api.get('/api/projects/{project_id}/receipts', {
    params: { project_id: project }, query: { distinct_id: distinctId, limit }
  })
  printRows(context, results, [
    ['RECEIVED', (row) => row.stored?.received_at ?? row.waiting?.received_at ?? row.dropped?.received_at ?? row.dead_letter?.time],
    ['FATE', (row) => row.fate],
    ['UUID', (row) => row.uuid],
    ['EVENT', (row) => row.stored?.event ?? row.waiting?.event ?? row.dead_letter?.event ?? '-'],
    ['', (row) => row.dead_letter?.error ?? row.dropped?.reason ?? '']
  ], output)
  if (searched.messages < searched.of) {
    context.stderr.write(`Searched ${searched.messages} of ${searched.of} messages of the stream.\n`)
  }
}

/** The fields of the fate, one a line. */
function flatten (receipt: Receipt): Record<string, unknown> {
  const { fate, stored, duplicates, may_be_in: places, searched } = receipt
  const again = duplicates?.count === 0 || duplicates === null ? {} : { came_again: duplicates.count }
  const details = stored ?? receipt.dead_letter ?? receipt.waiting ?? receipt.dropped ?? receipt.deleted ?? {}
  return {
    fate, ...details, ...again,
    ...(places === null
      ? {}
      : { may_be_in: places.map((place) => [place.where, place.process, place.since].filter(Boolean).join(' ')) }),
    ...(searched === null ? {} : { searched: `${searched.messages} of ${searched.of} messages` })
  }
}
