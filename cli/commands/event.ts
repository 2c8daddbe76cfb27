import { type Command, InvalidArgumentError } from 'commander'
import type { Schema } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId, readInstant } from '../read-arguments.ts'

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
