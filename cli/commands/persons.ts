import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { createLogger } from '../../platform/logger.ts'
import { deletePerson } from '../../api/persons/delete-person.ts'
import { findPersonByDistinctId, findPersonByUuid } from '../../platform/persons/person-ids.ts'
import { countEventsOfPerson, listPersons, type Person, readPerson } from '../../api/persons/read-persons.ts'
import type { CliContext } from '../cli-context.ts'
import { requireProject } from '../optional-services.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readDuration, readId } from '../read-arguments.ts'

interface InProject extends Output { project: number }
interface ListOptions extends InProject {
  distinctId?: string
  property?: { name: string, value: string }
  limit: number
}

interface OneOptions extends InProject { distinctId?: boolean }
interface DeleteOptions extends OneOptions { withEvents?: boolean, yes?: boolean, wait: number }

const ID = ['<id>', 'person_id of an event, also from before a merge; or a distinct id with --distinct-id'] as const
const IS_DISTINCT_ID = ['--distinct-id', '<id> is a distinct id, as an SDK sends it'] as const

/** `millrace persons list|show|delete`. */
export function addPersonsCommands (program: Command, context: CliContext): void {
  const group = program.command('persons').description('list, show and delete persons of a project')

  inProject(group.command('list').description('list persons, newest first'))
    .option('--distinct-id <prefix>', 'only persons with a distinct id that begins with this', readDistinctId)
    .option('--property <name=value>', 'only persons with this property, such as email=jo@example.com; reads every person', readProperty)
    .option('--limit <number>', 'maximum number of persons', readCount, 100)
    .action(async ({ project, distinctId, property, limit, ...output }: ListOptions) => {
      const filter = {
        limit,
        ...(distinctId === undefined ? {} : { distinctIdPrefix: distinctId }),
        ...(property === undefined ? {} : { property })
      }
      const persons = await listPersons(await context.postgres(), project, filter)
      if (persons.length === 0) await requireProject(context, project)
      printRows(context, persons, [
        ['id', ({ uuid }) => uuid],
        ['created', ({ createdAt }) => createdAt],
        ['identified', ({ isIdentified }) => isIdentified ? 'yes' : 'no'],
        ['distinct ids', ({ distinctIds, distinctIdCount }) =>
          distinctIds.join(', ') + (distinctIdCount > distinctIds.length ? `, and ${distinctIdCount - distinctIds.length} more` : '')]
      ], output)
    })

  inProject(group.command('show').description('show one person and the number of its events'))
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
  if (options.yes !== true) {
    printPerson(context, await findPerson(context, id, options), options)
    context.stderr.write('Nothing was deleted: add --yes to delete this person' +
      `${options.withEvents === true ? ' and its events' : '; add --with-events to delete its events, too'}.\n`)
    return
  }
  const uuid = await findUuid(context, id, options)
  const deleted = await deletePerson(
    { projectId: options.project, uuid, withEvents: options.withEvents === true },
    {
      sql: await context.postgres(),
      clickhouse: await context.clickhouse(),
      cluster: context.cluster(),
      logger: createLogger({ component: 'cli', level: 'silent' }),
      waitMs: options.wait * 1000
    })
  if (deleted === null) throw unknownPerson(id, options.project)
  if (!deleted.isDone) {
    throw new MillraceError('MILLRACE_DELETION_PENDING', 'the person is deleted in Postgres; ClickHouse is slow or ' +
      'unavailable, and the pipeline will delete the rest')
  }
  printFields(context, { person: deleted.uuid, events_deleted: deleted.events, rows_left: 0, done: true }, options)
}

interface FoundPerson {
  person: Person
  events: number
}

async function findPerson (context: CliContext, id: string, options: OneOptions): Promise<FoundPerson> {
  const person = await readPerson(await context.postgres(), options.project, await findUuid(context, id, options))
  if (person === null) throw unknownPerson(id, options.project)
  return { person, events: await countEventsOfPerson(await context.clickhouse(), options.project, person) }
}

/** Asks ClickHouse only for an id that may be from before a merge. */
async function findUuid (context: CliContext, id: string, { project, distinctId }: OneOptions): Promise<string> {
  const sql = await context.postgres()
  const uuid = distinctId === true
    ? await findPersonByDistinctId(sql, project, id)
    : await findPersonByUuid({ sql, clickhouse: await context.clickhouse() }, project, id)
  if (uuid === null) throw unknownPerson(id, project)
  return uuid
}

function printPerson (context: CliContext, { person, events }: FoundPerson, output: Output): void {
  const { uuid, isIdentified, createdAt, distinctIds, properties } = person
  printFields(context, {
    id: uuid,
    created: createdAt,
    identified: isIdentified,
    distinct_ids: distinctIds,
    events,
    properties: output.json === true ? properties : JSON.stringify(properties)
  }, output)
}

function inProject (command: Command): Command {
  return command.requiredOption('--project <id>', 'id of the project', readId).option(...JSON_OPTION)
}

/** Any non-blank string: the search normalises it as capture does. */
function readDistinctId (text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Give the beginning of a distinct id.')
  return text
}

function readProperty (text: string): { name: string, value: string } {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('Give a name and a value, such as email=jo@example.com.')
  return { name: text.slice(0, at), value: text.slice(at + 1) }
}

function unknownPerson (id: string, project: number): MillraceError {
  return new MillraceError('MILLRACE_PERSON_NOT_FOUND', `project ${project} has no person ${id}`)
}
