import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Command, InvalidArgumentError } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { addOfProject, type OfProject } from '../of-project.ts'
import { collectStrings, readId, readInstant } from '../read-arguments.ts'
import { printFields, printRows } from '../terminal-output.ts'

interface EraseOptions extends OfProject {
  events?: boolean
  event?: string
  property?: string
  value?: string
  from?: Date
  to?: Date
  remove?: string[]
  yes?: boolean
}

/** The API waits for the pipeline up to 20 s, after it has counted. */
const ERASE_MS = 120_000
const EXPORT_MS = 86_400_000

/** `millrace persons erase|anonymise|export|split|undo-merge`. */
export function addPersonsCommands (program: Command, context: CliContext): void {
  const group = program.command('persons').description('erase, anonymise, export, split and unmerge persons')

  addEraseOptions(addOfProject(group, 'erase', 'erase all data of distinct ids or of matching persons, or erase events'))
    .option('--events', 'erase only the events that match, not their persons')
    .action(async (ids: string[], options: EraseOptions) => await erase(context, ids, options, {}))

  addEraseOptions(addOfProject(group, 'anonymise', 'replace the ids of persons with random ones; counts do not change'))
    .option('--remove <property>', 'property of events and persons to remove; repeat for several', collectStrings)
    .action(async (ids: string[], options: EraseOptions) =>
      await erase(context, ids, options, { anonymise: true, remove_properties: options.remove ?? [] }))

  group.command('export')
    .description('export all data of a person to a zip file of JSON lines')
    .argument('<id>', 'distinct id, or with --person the id of a person')
    .argument('<file>', 'zip file to write')
    .option('--person', 'treat the id as that of a person')
    .option('--project <id>', 'id of the project', readId, 1)
    .action(async (id: string, file: string, { project, person = false }: OfProject & { person?: boolean }) => {
      const body = await context.api.download('/api/projects/{project_id}/persons/export', {
        params: { project_id: project }, query: person ? { person: id } : { distinct_id: id }, timeoutMs: EXPORT_MS
      })
      // A file that broke off must not look whole, nor stay: it has personal data.
      await pipeline(Readable.fromWeb(body), createWriteStream(`${file}.part`, { mode: 0o600 }))
        .then(async () => await rename(`${file}.part`, file)).finally(async () => await rm(`${file}.part`, { force: true }))
      context.stdout.write(`Wrote ${file}.\n`)
    })

  addOfProject(group, 'split', 'split distinct ids off a person into a new one')
    .argument('<person>', 'id of the person')
    .argument('<distinct-id...>', 'distinct ids to split off', collectId)
    .action(async (id: string, ids: string[], { project, ...output }: OfProject) => {
      printFields(context, await context.api.post('/api/projects/{project_id}/persons/{id}/split', {
        params: { project_id: project, id }, body: { distinct_ids: ids }, timeoutMs: ERASE_MS
      }), output)
    })

  addOfProject(group, 'undo-merge', 'undo a merge: compute its persons again as if it had never happened')
    .argument('<person>', 'id of the person')
    .argument('<event>', 'uuid of the event that merged, from the history of the person')
    .action(async (id: string, event: string, { project, ...output }: OfProject) => {
      printFields(context, await context.api.post('/api/projects/{project_id}/persons/{id}/undo_merge', {
        params: { project_id: project, id }, body: { event }, timeoutMs: ERASE_MS
      }), output)
    })
}

/** An id may contain commas. */
function collectId (text: string, before: string[] = []): string[] {
  return [...before, text]
}

function addEraseOptions (command: Command): Command {
  return command
    .argument('[distinct-id...]', 'distinct ids; without any, a filter is needed', collectId)
    .option('--property <name>', 'with this property')
    .option('--value <value>', 'with this value of --property')
    .option('--event <name>', 'with an event of this name')
    .option('--from <time>', 'with an event at or after this time', readInstant)
    .option('--to <time>', 'with an event before this time', readInstant)
    .option('--yes', 'do it; without it, only counts')
}

async function erase (
  context: CliContext, ids: readonly string[],
  { project, events = false, event, property, value, from, to, yes = false, json = false }: EraseOptions, more: object
): Promise<void> {
  const filter = { event, property, value, from: from?.toISOString(), to: to?.toISOString() }
  const isFiltered = Object.values(filter).some((each) => each !== undefined)
  if (isFiltered === (ids.length > 0)) throw new InvalidArgumentError('Give either distinct ids or a filter.')
  // Ids alone take everything of their persons, which is more than was asked for.
  if (events && ids.length > 0) throw new InvalidArgumentError('--events needs a filter in place of distinct ids.')
  const of = ids.length > 0 ? { distinct_ids: ids } : events ? { events: filter } : { persons: filter }
  const answer = await context.api.post('/api/projects/{project_id}/erasures', {
    params: { project_id: project }, body: { ...of, ...more, dry_run: !yes }, timeoutMs: ERASE_MS
  })
  if (json) return printFields(context, answer, { json })
  printRows(context, answer.found, ['where', 'count'], {})
  for (const { what, command } of answer.not_searched) context.stdout.write(`not searched: ${what}\n  ${command}\n`)
  if (!yes) context.stderr.write('Nothing was changed: add --yes to do it.\n')
  else context.stdout.write(answer.done_at === null ? 'Recorded: it continues in the background.\n' : 'Done: a count found nothing left.\n')
}
