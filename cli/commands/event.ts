import { type Command, InvalidArgumentError } from 'commander'
import { findReceipt, type Receipt } from '../../platform/find-receipt.ts'
import type { CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, type Output } from '../terminal-output.ts'
import { readId } from '../read-arguments.ts'

interface EventOptions extends Output { project: number }

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** `millrace event <uuid>`. */
export function addEventCommands (program: Command, context: CliContext): void {
  program.command('event')
    .description('find out what became of an event')
    .argument('<uuid>', 'its uuid, as the SDK sent it', readUuid)
    .option('--project <id>', 'project of the event', readId, 1)
    .option(...JSON_OPTION)
    .action(async (uuid: string, { project, ...output }: EventOptions) => {
      const receipt = await findReceipt({ projectId: project, uuid }, {
        clickhouse: await context.clickhouse(), nats: async (ask) => await ask(await context.nats())
      })
      printFields(context, { uuid, project, fate: receipt.fate, ...describe(receipt) }, output)
    })
}

function readUuid (text: string): string {
  if (!UUID.test(text)) throw new InvalidArgumentError('Give a uuid, such as 0193a5b2-7c1d-7e8f-9abc-def012345678.')
  return text.toLowerCase()
}

function describe (receipt: Receipt): Record<string, string | number> {
  switch (receipt.fate) {
    case 'stored': return { ...receipt.stored }
    case 'dead_letter': {
      const { id, stage, reason, time, error } = receipt.letter
      return { id, stage, reason, time, error }
    }
    case 'dropped': return receipt.dropped
    case 'not_found': return { messagesWaiting: receipt.messagesWaiting }
  }
}
