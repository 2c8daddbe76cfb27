import type { Command } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Schema } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { readCount, readId } from '../read-arguments.ts'

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
