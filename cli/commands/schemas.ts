import { writeFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { compileDraft, EVENT_SCHEMAS, type EventSchema } from '../../api/enforcement/schemas/event-schema.ts'
import { createDefinition, updateDefinition } from '../../api/enforcement/change-definitions.ts'
import { findDefinition, listDefinitions, listVersions, type NamedKey } from '../../api/enforcement/versioned-definitions.ts'
import { MillraceError } from '../../engines/errors.ts'
import { SCHEMA_MODES, type SchemaMode } from '../../platform/directory/active-schemas.ts'
import { checkStoredEvents } from '../../api/enforcement/schemas/check-stored-events.ts'
import { inferSchema } from '../../api/enforcement/schemas/infer-schema.ts'
import { readSchemaCounts } from '../../api/enforcement/schemas/read-schema-counts.ts'
import type { SchemaPrediction } from '../../api/enforcement/schemas/prediction.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { CliContext } from '../cli-context.ts'
import { namingPlace, readDefinition } from '../definition-files.ts'
import { requireProject } from '../optional-services.ts'
import { readCount, readId, readString } from '../read-arguments.ts'
import { type Column, JSON_OPTION, type Output, printFields, printRows, showLookBack } from '../terminal-output.ts'

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
      const all = { projectId: project, limit: 1000, offset: 0 }
      const { results } = await listDefinitions(await context.postgres(), EVENT_SCHEMAS, all)
      if (results.length === 0) await requireProject(context, project)
      const counted = days === undefined ? null : await countEvents(context, { project, days }, results)
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
      const schema = await readVersion(await context.postgres(), { projectId: project, name: event }, version)
      context.stdout.write(`${JSON.stringify(schema, null, 2)}\n`)
    })

  addCommon(addEvent(group.command('infer').description('write a draft of a schema, made from stored events, as JSON')))
    .option('--output <file>', 'the file to write it to; default: to the terminal')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 30)
    .option('--limit <number>', 'about how many events are read at most, the same ones each time', readCount, 100_000)
    .option('--include-sdk', 'also describe properties whose names begin with $')
    .action(async (event: string, options: InferOptions) => {
      const { project, output: file, days, limit, includeSdk = false, ...output } = options
      const query = { projectId: project, event, days, limit, includeSdk, now: context.now() }
      const inferred = await inferSchema(await context.clickhouse(), query)
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
      const sql = await context.postgres()
      const fields = {
        schema: await readJson(file), ...mode && { mode }, ...owner && { owner }, ...description && { description }
      }
      const key = { projectId: project, name: event }
      const known = await findDefinition(sql, EVENT_SCHEMAS, key).catch(isNotFound)
      const stored = await namingPlace(REFUSED, async () => known === null
        ? await createDefinition(sql, EVENT_SCHEMAS, { projectId: project, userId: null }, { event, ...fields })
        : await updateDefinition(sql, EVENT_SCHEMAS, key, {
          fields: { ...fields, ...version && { version } }, userId: null
        }))
      printFields(context, describe(stored), output)
    })

  addCommon(addEvent(group.command('check').description('say what a schema would have done with stored events; by default its newest version')))
    .option('--file <file>', 'a draft that is not stored: file with the JSON Schema')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 7)
    .option('--limit <number>', 'maximum number of events, newest day first', readCount, 10_000_000)
    .action(async (event: string, { project, file, days, limit, ...output }: CheckOptions) => {
      const key = { projectId: project, name: event }
      const draft = file === undefined ? (await find(await context.postgres(), key)).schema : await readJson(file)
      const compiled = await namingPlace(REFUSED, () => compileDraft(draft))
      const clickhouse = await context.clickhouse()
      const query = { projectId: project, event, days, limit, now: context.now() }
      const prediction = await showLookBack(context, async (onProgress) =>
        await checkStoredEvents(clickhouse, compiled, { ...query, onProgress }))
      if (prediction.events === 0) await requireProject(context, project)
      printPrediction(context, prediction, output)
    })

  addCommon(addEvent(group.command('activate').description('enforce a schema; by default its newest version')))
    .option('--schema-version <number>', 'the version', readCount)
    .addOption(modeOption())
    .action(async (event: string, { project, schemaVersion: version, mode, ...output }: SchemaOptions) => {
      const sql = await context.postgres()
      const key = { projectId: project, name: event }
      const active = version ?? (await find(sql, key)).version
      const fields = { active_version: active, ...mode && { mode } }
      const update = async (): Promise<EventSchema> =>
        await updateDefinition(sql, EVENT_SCHEMAS, key, { fields, userId: null })
      printFields(context, describe(await namingPlace(REFUSED, update)), output)
    })

  addCommon(addEvent(group.command('disable').description('no longer enforce a schema; its versions stay')))
    .action(async (event: string, { project, ...output }: SchemaOptions) => {
      const sql = await context.postgres()
      const key = { projectId: project, name: event }
      await find(sql, key)
      const fields = { active_version: null }
      printFields(context, describe(await updateDefinition(sql, EVENT_SCHEMAS, key, { fields, userId: null })), output)
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
  context: CliContext, { project, days }: { project: number, days: number }, schemas: readonly EventSchema[]
): Promise<(schema: EventSchema) => Counted> {
  const query = { projectId: project, days, now: context.now() }
  const counts = await readSchemaCounts(await context.clickhouse(), query, schemas)
  return ({ id }) => {
    const { checked = 0, kept = 0, quarantined = 0, rejected = 0 } = counts.find(({ schema }) => schema === id) ?? {}
    return { checked, failed: kept + quarantined + rejected }
  }
}

function readDays (text: string): number {
  const days = readCount(text)
  if (days > 365) throw new InvalidArgumentError('Give 1 to 365 days.')
  return days
}

function printPrediction (context: CliContext, prediction: SchemaPrediction, output: Output): void {
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
    ['sdk', ({ lib, libVersion }) => `${lib} ${libVersion}`.trim() || '-'],
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

async function find (sql: Sql, key: NamedKey): Promise<EventSchema> {
  const found = await findDefinition(sql, EVENT_SCHEMAS, key).catch(isNotFound)
  if (found === null) throw new MillraceError('MILLRACE_SCHEMA_NOT_FOUND', `project ${key.projectId} has no schema of the event ${key.name}`)
  return found
}

async function readVersion (sql: Sql, key: NamedKey, version?: number): Promise<unknown> {
  if (version === undefined) return (await find(sql, key)).schema
  // Events may name a version of a schema that was deleted.
  const query = { ...key, version, deleted: true, limit: 1, offset: 0 }
  const found = await listVersions(sql, EVENT_SCHEMAS, query).catch(isNotFound)
  if (found === null) throw new MillraceError('MILLRACE_SCHEMA_NOT_FOUND', `the schema of ${key.name} has no version ${version}`)
  return found.results[0]!.schema
}

function isNotFound (error: unknown): null {
  if (error instanceof MillraceError && error.code === 'not_found') return null
  throw error
}

const REFUSED = 'MILLRACE_SCHEMA_REFUSED'

async function readJson (file: string): Promise<unknown> {
  return await readDefinition(file, { what: 'a JSON Schema', code: 'MILLRACE_SCHEMA_UNREADABLE' })
}
