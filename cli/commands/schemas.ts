import { writeFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { SCHEMA_MODES } from '../../platform/directory/active-schemas.ts'
import type { Answer } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { readCount, readDays, readString } from '../read-arguments.ts'
import { type Column, type Output, printFields, printRows } from '../terminal-output.ts'
import { addDefinitionCommands, addProject, type DefinitionKind, LOOK_BACK_MS, readJsonFile } from './definition-commands.ts'

type EventSchema = Answer<'/api/projects/{project_id}/event_schemas'>['results'][number]
type SchemaVersion = Answer<'/api/projects/{project_id}/event_schemas/{id}/versions'>['results'][number]
type Prediction = Answer<'/api/projects/{project_id}/event_schemas/{id}/check', 'post'>

/** `millrace schemas list|show|infer|put|check|activate|disable`. */
export function addSchemasCommands (program: Command, context: CliContext): void {
  const group = program.command('schemas').description('schemas of the properties of events, by event')

  addProject(group.command('list').description('list the schemas of a project'))
    .option('--days <number>', 'also count the events of so many days that were checked, and that did not meet it', readDays)
    .action(async ({ project, days, ...output }: Output & { project: number, days?: number }) => {
      const results = await SCHEMAS.requests.list(await context.api(), project)
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

  addProject(group.command('infer').description('write a draft of a schema, made from stored events, as JSON'))
    .argument('<event>', SCHEMAS.texts.describeName, readString(SCHEMAS.maxNameLength))
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

  addDefinitionCommands(group, context, SCHEMAS)
}

function modeOption (): Option {
  return new Option('--mode <mode>', 'what becomes of events that do not meet it').choices(SCHEMA_MODES)
}

const SCHEMAS: DefinitionKind<EventSchema, SchemaVersion, Prediction> = {
  noun: 'schema',
  texts: { name: '<event>', describeName: 'name of the event', file: 'the JSON Schema of the properties', putDetails: '' },
  maxNameLength: 200,
  codes: { missing: 'MILLRACE_SCHEMA_NOT_FOUND', refused: 'MILLRACE_SCHEMA_REFUSED' },
  nameOf: ({ event }) => event,
  title: (event) => `schema of the event ${event}`,
  requests: {
    list: async (api, project) => (await api.get('/api/projects/{project_id}/event_schemas', {
      params: { project_id: project }, query: { limit: 1000 }
    })).results,
    create: async (api, project, body) =>
      await api.post('/api/projects/{project_id}/event_schemas', { params: { project_id: project }, body }),
    update: async (api, { project, id }, body) =>
      await api.patch('/api/projects/{project_id}/event_schemas/{id}', { params: { project_id: project, id }, body }),
    version: async (api, { project, id }, version) => (await api.get('/api/projects/{project_id}/event_schemas/{id}/versions', {
      params: { project_id: project, id }, query: { version, deleted: true, limit: 1 }
    })).results[0],
    check: async (api, { project, id }, body) => await api.post('/api/projects/{project_id}/event_schemas/{id}/check', {
      params: { project_id: project, id }, body, timeoutMs: LOOK_BACK_MS
    })
  },
  contentOf: ({ schema }) => schema,
  readFile: async (file) => ({ schema: await readJsonFile(file, { what: 'a JSON Schema', code: 'MILLRACE_SCHEMA_UNREADABLE' }) }),
  options: () => ({
    put: [
      modeOption(),
      new Option('--owner <owner>', 'who is asked about the event').argParser(readString(400)),
      new Option('--description <text>', 'what the event is for').argParser(readString(3000))
    ],
    activate: [modeOption()]
  }),
  describe: ({ event, mode, version, active_version: active, owner, description }) =>
    ({ event, mode, version, active_version: active, owner, description }),
  printPrediction
}

interface InferOptions extends Output {
  project: number
  output?: string
  days: number
  limit: number
  includeSdk?: boolean
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
