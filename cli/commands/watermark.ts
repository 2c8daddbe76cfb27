import type { Command } from 'commander'
import { findIngest, forgetIngest, type KnownIngest, listIngest, readWatermark } from '../../api/status/ingest-processes.ts'
import type { CliContext } from '../cli-context.ts'
import { askNats } from '../optional-services.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

/** `millrace watermark [forget]`. */
export function addWatermarkCommands (program: Command, context: CliContext): void {
  const group = program.command('watermark')
    .description('up to which moment of receipt everything is stored, and what it waits for')
    .option(...JSON_OPTION)
    .action(async (output: Output) => { await show(context, output) })

  group.command('forget <id>')
    .description('stop waiting for the spool folder of an ingest process that is lost for good')
    .option('--yes', 'forget it; without it, the entry is only shown')
    .action(async (id: string, { yes }: { yes?: true }) => {
      const connection = await context.nats()
      if (yes !== true) {
        printRows(context, [await findIngest(connection, id)], COLUMNS, {})
        context.stderr.write('Nothing was forgotten. Add --yes to say that the folder is lost: events in it were acknowledged and will not be stored,\n' +
          'and the watermark will pass them. If the folder still exists, start an ingest process on its data directory instead.\n')
        return
      }
      const forgotten = await forgetIngest(connection, id, context.now())
      context.stdout.write(`The watermark no longer waits for ${id} on ${forgotten.host}; ${forgotten.spoolBytes} bytes were in its spool.\n`)
    })
}

const COLUMNS = [
  ['id', ({ id }: KnownIngest) => id],
  ['host', ({ host }: KnownIngest) => host],
  ['folder', ({ folder }: KnownIngest) => folder],
  ['published through', ({ publishedThrough }: KnownIngest) => publishedThrough === 0 ? null : new Date(publishedThrough)],
  ['in flight', ({ inFlight }: KnownIngest) => inFlight],
  ['spool bytes', ({ spoolBytes }: KnownIngest) => spoolBytes],
  ['heard of', ({ storedAt }: KnownIngest) => new Date(storedAt)],
  ['version', ({ version }: KnownIngest) => version]
] as const

async function show (context: CliContext, output: Output): Promise<void> {
  const watermark = await readWatermark(await context.clickhouse())
  const ingest = await askNats(context, listIngest, 'the ingest processes are not listed')
  const fields = {
    complete_through: watermark?.completeThrough ?? null,
    updated_at: watermark?.updatedAt ?? null,
    held_by: watermark?.heldBy ?? null
  }
  if (output.json === true) {
    context.stdout.write(`${JSON.stringify({ ...fields, ingest }, null, 2)}\n`)
    return
  }
  printFields(context, fields, output)
  if (ingest === null) return
  context.stdout.write('\n')
  printRows(context, ingest, COLUMNS, output)
}
