import type { Command } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Answer } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { NO_ANSWER } from '../cli-context.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

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
