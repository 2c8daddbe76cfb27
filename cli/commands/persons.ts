import { setTimeout as delay } from 'node:timers/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Schema } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { orNone } from '../management-client.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readDuration, readId } from '../read-arguments.ts'

interface InProject extends Output { project: number }
interface ListOptions extends InProject { search?: string, limit: number }
interface OneOptions extends InProject { distinctId?: boolean }
interface DeleteOptions extends OneOptions { withEvents?: boolean, yes?: boolean, wait: number }

type Person = Schema<'Person'>

const ID = ['<id>', 'person_id of an event, also from before a merge; or a distinct id with --distinct-id'] as const
const IS_DISTINCT_ID = ['--distinct-id', '<id> is a distinct id, as an SDK sends it'] as const

/** Longest wait of the API for ClickHouse, in milliseconds. */
const API_WAIT_MS = 30_000
const POLL_MS = 1000

/** `millrace persons list|search|show|delete`. */
export function addPersonsCommands (program: Command, context: CliContext): void {
  const group = program.command('persons').description('list, search, show and delete persons of a project')

  inProject(group.command('list').description('list persons, newest first'))
    .option('--search <prefix>', 'only persons with a distinct id that begins with this', readText)
    .option('--limit <number>', 'maximum number of persons', readCount, 100)
    .action(async ({ project, search, limit, ...output }: ListOptions) => {
      const api = await context.api()
      const { results } = await api.get('/api/projects/{project_id}/persons', {
        params: { project_id: project }, query: { search, limit }
      })
      printRows(context, results, [
        ['id', ({ id }) => id],
        ['created', ({ created_at: created }) => created],
        ['identified', ({ is_identified: isIdentified }) => isIdentified ? 'yes' : 'no'],
        ['distinct ids', ({ distinct_ids: ids }) => ids]
      ], output)
    })

  inProject(group.command('search').description('search persons by id, distinct id, email, name or username'))
    .argument('<text>', 'what to search for', readText)
    .action(async (search: string, { project, ...output }: InProject) => {
      const api = await context.api()
      const { matches, searched_properties: isWhole } = await api.get('/api/projects/{project_id}/persons/search', {
        params: { project_id: project }, query: { search }
      })
      printRows(context, matches, [
        ['id', ({ uuid }) => uuid],
        ['found by', ({ by }) => by],
        ['name', ({ name }) => name],
        ['distinct ids', ({ distinct_ids: ids }) => ids]
      ], output)
      if (!isWhole) context.stderr.write('clickhouse does not answer: email, name and username were not searched.\n')
    })

  inProject(group.command('show').description('show one person'))
    .argument(...ID)
    .option(...IS_DISTINCT_ID)
    .action(async (id: string, options: OneOptions) => {
      printPerson(context, await findPerson(context, id, options), options)
    })

  inProject(group.command('delete').description('delete a person, and with --with-events its events'))
    .argument(...ID)
    .option(...IS_DISTINCT_ID)
    .option('--with-events', 'also delete the events received so far, of all its distinct ids')
    .option('--wait <duration>', 'maximum wait until ClickHouse has deleted everything', readDuration, 600)
    .option('--yes', 'delete; without it, the person is only shown')
    .action(async (id: string, options: DeleteOptions) => { await remove(context, id, options) })
}

async function remove (context: CliContext, id: string, options: DeleteOptions): Promise<void> {
  const { project, withEvents = false, wait } = options
  const person = await findPerson(context, id, options)
  if (options.yes !== true) {
    printPerson(context, person, options)
    context.stderr.write('Nothing was deleted: add --yes to delete this person' +
      `${withEvents ? ' and its events' : '; add --with-events to delete its events, too'}.\n`)
    return
  }
  const api = await context.api()
  const deadline = performance.now() + wait * 1000
  const status = await api.delete('/api/projects/{project_id}/persons/{id}', {
    params: { project_id: project, id: person.id }, query: { delete_events: withEvents }, timeoutMs: API_WAIT_MS
  })
  if (status !== 204) await waitUntilDone(context, { project, person: person.id, deadline })
  printFields(context, { person: person.id, with_events: withEvents, done: true }, options)
}

/** @throws {MillraceError} `MILLRACE_DELETION_PENDING` when the deletion is not done in time. */
async function waitUntilDone (
  context: CliContext, { project, person, deadline }: { project: number, person: string, deadline: number }
): Promise<void> {
  const api = await context.api()
  do {
    const { results: [deletion] } = await api.get('/api/projects/{project_id}/persons/deletions', {
      params: { project_id: project }, query: { person, limit: 1 }
    })
    if (deletion?.done_at !== undefined && deletion.done_at !== null) return
    await delay(POLL_MS)
  } while (performance.now() < deadline)
  throw new MillraceError('MILLRACE_DELETION_PENDING', 'the person is deleted in Postgres; ClickHouse is slow or ' +
    'unavailable, and the pipeline will delete the rest')
}

/** @throws {MillraceError} `MILLRACE_PERSON_NOT_FOUND`. */
async function findPerson (context: CliContext, id: string, { project, distinctId }: OneOptions): Promise<Person> {
  const api = await context.api()
  const found = distinctId === true
    ? (await api.get('/api/projects/{project_id}/persons', { params: { project_id: project }, query: { distinct_id: id } })).results[0]
    : await orNone(api.get('/api/projects/{project_id}/persons/{id}', { params: { project_id: project, id } }))
  if (found !== undefined) return found
  throw new MillraceError('MILLRACE_PERSON_NOT_FOUND', `project ${project} has no person ${id}`)
}

function printPerson (context: CliContext, person: Person, output: Output): void {
  const { id, is_identified: isIdentified, created_at: created, distinct_ids: ids, properties } = person
  printFields(context, {
    id, created, identified: isIdentified, distinct_ids: ids,
    properties: output.json === true ? properties : JSON.stringify(properties)
  }, output)
}

function inProject (command: Command): Command {
  return command.requiredOption('--project <id>', 'id of the project', readId).option(...JSON_OPTION)
}

/** Any non-blank string: the API normalises it as capture does. */
function readText (text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Give some text.')
  return text
}
