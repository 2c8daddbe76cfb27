import { writeFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { SCHEMA_MODES, type SchemaMode } from '../../platform/directory/active-schemas.ts'
import type { Answer } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { namingPlace, readDefinition } from '../definition-files.ts'
import { orNone } from '../management-client.ts'
import { readCount, readId, readString } from '../read-arguments.ts'
import { type Column, JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

type EventSchema = Answer<'/api/projects/{project_id}/event_schemas'>['results'][number]
type Prediction = Answer<'/api/projects/{project_id}/event_schemas/{id}/check', 'post'>

interface SchemaOptions extends Output {
  project: number
  mode?: SchemaMode
  schemaVersion?: number
  days?: number
  basedOn?: number
  owner?: string
  description?: string
}

/** `millrace schemas list|show|infer|put|check|activate|disable`. */
export function addSchemasCommands (program: Command, context: CliContext): void {
  const group = program.command('schemas').description('schemas of the properties of events, by event')

  addCommon(group.command('list').description('list the schemas of a project'))
    .option('--days <number>', 'also count the events of so many days that were checked, and that did not meet it', readDays)
    .action(async ({ project, days, ...output }: SchemaOptions) => {
      const results = await listAll(context, project)
      const counted = days === undefined ? null : await countEvents(context, { project, days })
      const rows = results.map((schema) => ({ ...schema, ...counted?.(schema) }))
      printRows<Partial<Counted> & EventSchema>(context, rows, [
        ['event', ({ event }) => event],
        ['mode', ({ mode }) => mode],
        ['version', ({ version }) => version],
        ['active', ({ active_version: active }) => active],
        ...counted === null ? [] : COUNTED,
        ['owner', ({ owner }) => owner],
        ['updated', ({ updated_at: updated }) => updated]
      ], output)
    })

  addCommon(addEvent(group.command('show').description('write a version of a schema as JSON; by default the newest')))
    .option('--schema-version <number>', 'the version', readCount)
    .action(async (event: string, { project, schemaVersion: version }: SchemaOptions) => {
      const schema = await readVersion(context, { project, event }, version)
      context.stdout.write(`${JSON.stringify(schema, null, 2)}\n`)
    })

  addCommon(addEvent(group.command('infer').description('write a draft of a schema, made from stored events, as JSON')))
    .option('--output <file>', 'the file to write it to; default: to the terminal')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 30)
    .option('--limit <number>', 'about how many events are read at most, the same ones each time', readCount, 100_000)
    .option('--include-sdk', 'also describe properties whose names begin with $')
    .action(async (event: string, options: InferOptions) => {
      const { project, output: file, days, limit, includeSdk = false, ...output } = options
      const api = await context.api()
      const inferred = await api.post('/api/projects/{project_id}/event_schemas/infer', {
        params: { project_id: project }, body: { event, days, limit, include_sdk: includeSdk }, timeoutMs: LOOK_BACK_MS
      })
      if (inferred.events === 0) throw new MillraceError('MILLRACE_SCHEMA_NOT_FOUND', `project ${project} has no event ${event} of the last ${days} days to make a schema from`)
      const text = `${JSON.stringify(output.json === true ? inferred : inferred.schema, null, 2)}\n`
      if (file === undefined) context.stdout.write(text)
      else await writeFile(file, text)
      context.stderr.write(`millrace: ${inferred.properties.length} properties, from ${inferred.events} of ${inferred.stored} events\n`)
    })

  addCommon(addEvent(group.command('put').description('store a schema, or a new version of one; it is enforced when it is activated')))
    .argument('<file>', 'file with the JSON Schema of the properties')
    .addOption(modeOption())
    .option('--based-on <version>', 'the version that the file was made of: refused when there is a newer one', readCount)
    .option('--owner <owner>', 'who is asked about the event', readString(400))
    .option('--description <text>', 'what the event is for', readString(3000))
    .action(async (event: string, file: string, options: SchemaOptions) => {
      const { project, mode, owner, description, basedOn: version, ...output } = options
      const fields = {
        schema: await readJson(file), ...mode && { mode }, ...owner && { owner }, ...description && { description }
      }
      const known = (await listAll(context, project)).find((each) => each.event === event)
      const stored = await namingPlace(REFUSED, async () => known === undefined
        ? await (await context.api()).post('/api/projects/{project_id}/event_schemas', { params: { project_id: project }, body: { event, ...fields } })
        : await update(context, { project, id: known.id }, { ...fields, ...version && { version } }))
      printFields(context, describe(stored), output)
    })

  addCommon(addEvent(group.command('check').description('say what a schema would have done with stored events; by default its newest version')))
    .option('--file <file>', 'a draft that is not stored: file with the JSON Schema')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 7)
    .option('--limit <number>', 'maximum number of events, newest day first', readCount, 10_000_000)
    .action(async (event: string, { project, file, days, limit, ...output }: CheckOptions) => {
      const { id } = await find(context, { project, event })
      const draft = file === undefined ? {} : { schema: await readJson(file) }
      const api = await context.api()
      const prediction = await namingPlace(REFUSED, async () =>
        await api.post('/api/projects/{project_id}/event_schemas/{id}/check', {
          params: { project_id: project, id }, body: { ...draft, days, limit }, timeoutMs: LOOK_BACK_MS
        }))
      printPrediction(context, prediction, output)
    })

  addCommon(addEvent(group.command('activate').description('enforce a schema; by default its newest version')))
    .option('--schema-version <number>', 'the version', readCount)
    .addOption(modeOption())
    .action(async (event: string, { project, schemaVersion: version, mode, ...output }: SchemaOptions) => {
      const { id, version: newest } = await find(context, { project, event })
      const fields = { active_version: version ?? newest, ...mode && { mode } }
      const stored = await namingPlace(REFUSED, async () => await update(context, { project, id }, fields))
      printFields(context, describe(stored), output)
    })

  addCommon(addEvent(group.command('disable').description('no longer enforce a schema; its versions stay')))
    .action(async (event: string, { project, ...output }: SchemaOptions) => {
      const { id } = await find(context, { project, event })
      printFields(context, describe(await update(context, { project, id }, { active_version: null })), output)
    })
}

interface InferOptions extends Output {
  project: number
  output?: string
  days: number
  limit: number
  includeSdk?: boolean
}

interface CheckOptions extends Output {
  project: number
  file?: string
  days: number
  limit: number
}

/** Events that were held against a schema, and those that did not meet it. */
interface Counted { checked: number, failed: number }

const COUNTED: Column<Partial<Counted>>[] = [['checked', ({ checked }) => checked], ['failed', ({ failed }) => failed]]

async function countEvents (
  context: CliContext, { project, days }: { project: number, days: number }
): Promise<(schema: EventSchema) => Counted> {
  const api = await context.api()
  const { results } = await api.get('/api/projects/{project_id}/event_schemas/counts', {
    params: { project_id: project }, query: { days }
  })
  return ({ id }) => {
    const { checked = 0, kept = 0, quarantined = 0, rejected = 0 } = results.find(({ schema }) => schema === id) ?? {}
    return { checked, failed: kept + quarantined + rejected }
  }
}

function readDays (text: string): number {
  const days = readCount(text)
  if (days > 365) throw new InvalidArgumentError('Give 1 to 365 days.')
  return days
}

function printPrediction (context: CliContext, prediction: Prediction, output: Output): void {
  const { failures, libs, ...counts } = prediction
  if (output.json === true) return printFields(context, { ...prediction }, output)
  printFields(context, counts, output)
  if (counts.failed === 0) return
  context.stdout.write('\n')
  printRows(context, failures, [
    ['property', ({ path }) => path === '' ? '/' : path],
    ['keyword', ({ keyword }) => keyword],
    ['events', ({ events }) => events],
    ['such as', ({ samples }) => samples[0]?.value.slice(0, 60)],
    ['uuid', ({ samples }) => samples[0]?.uuid]
  ], output)
  context.stdout.write('\n')
  printRows(context, libs, [
    ['sdk', ({ lib, lib_version: version }) => `${lib} ${version}`.trim() || '-'],
    ['events', ({ events }) => events],
    ['failed', ({ failed }) => failed]
  ], output)
}

function addCommon (command: Command): Command {
  return command.option('--project <id>', 'the project', readId, 1).option(...JSON_OPTION)
}

function addEvent (command: Command): Command {
  return command.argument('<event>', 'name of the event', readString(200))
}

function modeOption (): Option {
  return new Option('--mode <mode>', 'what becomes of events that do not meet it').choices(SCHEMA_MODES)
}

function describe (stored: EventSchema): Record<string, unknown> {
  const { event, mode, version, active_version: active, owner, description } = stored
  return { event, mode, version, active_version: active, owner, description }
}

interface Named { project: number, event: string }

/** A project has at most 1,000. */
async function listAll (context: CliContext, project: number): Promise<EventSchema[]> {
  const api = await context.api()
  const { results } = await api.get('/api/projects/{project_id}/event_schemas', {
    params: { project_id: project }, query: { limit: 1000 }
  })
  return results
}

async function find (context: CliContext, { project, event }: Named): Promise<EventSchema> {
  const found = (await listAll(context, project)).find((each) => each.event === event)
  if (found === undefined) throw new MillraceError('MILLRACE_SCHEMA_NOT_FOUND', `project ${project} has no schema of the event ${event}`)
  return found
}

async function update (
  context: CliContext, { project, id }: { project: number, id: number }, fields: object
): Promise<EventSchema> {
  const api = await context.api()
  return await api.patch('/api/projects/{project_id}/event_schemas/{id}', { params: { project_id: project, id }, body: fields })
}

async function readVersion (context: CliContext, named: Named, version?: number): Promise<unknown> {
  const { id, schema } = await find(context, named)
  if (version === undefined) return schema
  const api = await context.api()
  // Events may name a version of a schema that was deleted.
  const found = await orNone(api.get('/api/projects/{project_id}/event_schemas/{id}/versions', {
    params: { project_id: named.project, id }, query: { version, deleted: true, limit: 1 }
  }))
  if (found?.results[0] === undefined) throw new MillraceError('MILLRACE_SCHEMA_NOT_FOUND', `the schema of ${named.event} has no version ${version}`)
  return found.results[0].schema
}

/** Longest wait for a look back over stored events, in milliseconds. */
const LOOK_BACK_MS = 600_000

const REFUSED = 'MILLRACE_SCHEMA_REFUSED'

async function readJson (file: string): Promise<unknown> {
  return await readDefinition(file, { what: 'a JSON Schema', code: 'MILLRACE_SCHEMA_UNREADABLE' })
}
