import { type Command, InvalidArgumentError } from 'commander'
import { describeReceipt, type ReceiptJson } from '../../api/events/receipts/describe-receipt.ts'
import { findReceipt, type FindReceiptDeps } from '../../api/events/receipts/find-receipt.ts'
import { listReceipts } from '../../api/events/receipts/list-receipts.ts'
import { readSentUuid } from '../../api/events/receipts/stored-events.ts'
import type { CliContext } from '../cli-context.ts'
import { requireProject } from '../optional-services.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId, readInstant } from '../read-arguments.ts'

interface EventOptions extends Output {
  project: number
  timestamp?: Date
  distinctId?: string
  limit: number
}

/** `millrace event <uuid>` and `millrace event --distinct-id <id>`. */
export function addEventCommands (program: Command, context: CliContext): void {
  program.command('event')
    .description('find out what became of an event, or of the newest events of a distinct id')
    .argument('[uuid]', 'its uuid, as the SDK sent it', readUuid)
    .option('--distinct-id <id>', 'list the newest events of this distinct id instead')
    .option('--limit <number>', 'events to list at most', readCount, 20)
    .option('--project <id>', 'project of the event', readId, 1)
    .option('--timestamp <time>', 'when the event happened (ISO 8601), if its uuid is not version 7', readInstant)
    .option(...JSON_OPTION)
    .action(async (uuid: string | undefined, options: EventOptions) => {
      if (uuid === undefined && options.distinctId === undefined) throw new InvalidArgumentError('give the uuid of an event, or --distinct-id')
      const deps: FindReceiptDeps = {
        clickhouse: await context.clickhouse(), nats: async (ask) => await ask(await context.nats()),
        sql: async () => await context.postgres(), now: context.now
      }
      if (uuid === undefined) await printList(context, deps, options)
      else await printOne(context, deps, { ...options, uuid })
    })
}

async function printOne (
  context: CliContext, deps: FindReceiptDeps, { uuid, project, timestamp, ...output }: EventOptions & { uuid: string }
): Promise<void> {
  const receipt = await findReceipt({ projectId: project, uuid, timestamp: timestamp?.getTime() }, deps)
  if (receipt.fate === 'unknown' || receipt.fate === 'deleted') await requireProject(context, project)
  const json = describeReceipt(uuid, receipt)
  printFields(context, output.json === true ? { ...json, project } : { uuid, project, ...flatten(json) }, output)
}

async function printList (
  context: CliContext, deps: FindReceiptDeps, { project, distinctId = '', limit, ...output }: EventOptions
): Promise<void> {
  const query = { projectId: project, distinctId: toDistinctId(distinctId), limit }
  const { receipts, searched } = await listReceipts(query, deps)
  if (receipts.length === 0) await requireProject(context, project)
  const rows = receipts.map(({ uuid, receipt, receivedAt }) =>
    ({ ...describeReceipt(uuid, receipt), received_at: receivedAt }))
  printRows(context, rows, [
    ['RECEIVED', (row) => row.received_at],
    ['FATE', (row) => row.fate],
    ['UUID', (row) => row.uuid],
    ['EVENT', (row) => row.stored?.event ?? row.waiting?.event ?? row.dead_letter?.event ?? '-'],
    ['', (row) => row.dead_letter?.error ?? row.dropped?.reason ?? '']
  ], output)
  if (searched.searchedMessages < searched.of) {
    context.stderr.write(`Searched ${searched.searchedMessages} of ${searched.of} messages of the stream.\n`)
  }
}

function readUuid (text: string): string {
  const uuid = readSentUuid(text)
  if (uuid === null) throw new InvalidArgumentError('Give a uuid, such as 0193a5b2-7c1d-7e8f-9abc-def012345678.')
  return uuid
}

/** The fields of the fate, one a line. */
function flatten (json: ReceiptJson): Record<string, unknown> {
  const { fate, stored, duplicates, may_be_in: places, searched } = json
  const again = duplicates?.count === 0 || duplicates === null ? {} : { came_again: duplicates.count }
  const details = stored ?? json.dead_letter ?? json.waiting ?? json.dropped ?? json.deleted ?? {}
  return {
    fate, ...details, ...again,
    ...(places === null
      ? {}
      : { may_be_in: places.map((place) => [place.where, place.process, place.since].filter(Boolean).join(' ')) }),
    ...(searched === null ? {} : { searched: `${searched.messages} of ${searched.of} messages` })
  }
}
