import path from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import { createAmplitudeMapper } from '../../engines/import/from-amplitude.ts'
import { completeMapping, createMapper } from '../../engines/import/from-mapping.ts'
import { createMixpanelMapper } from '../../engines/import/from-mixpanel.ts'
import { createPosthogMapper, isPersonRow, requireColumns } from '../../engines/import/from-posthog.ts'
import type { CliContext } from '../cli-context.ts'
import { formatDay } from '../import/event-digest.ts'
import { queryStoredEvents } from '../import/query-store.ts'
import { listFiles, type SourceFile } from '../import/list-files.ts'
import { readRows } from '../import/read-rows.ts'
import { type ImportResult, type MapperOf, runImport } from '../import/run-import.ts'
import { findManagementApi } from '../management-client.ts'
import { collectStrings, readId } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

const SOURCES = ['posthog', 'mixpanel', 'amplitude', 'files'] as const
type Source = typeof SOURCES[number]

interface ImportCommandOptions extends Output {
  project: number
  map?: string[]
  timezone: string
  persons?: 'events' | 'export'
  eventsPerSecond: number
  state?: string
  dryRun?: true
  verify?: true
}

/** Of an import that is complete but for rows that were rejected; documented in docs/run/operations.md. */
export const IMPORTED_WITH_REJECTS = 5

/** `millrace import <source> <files...>`. */
export function addImportCommands (program: Command, context: CliContext): void {
  program.command('import')
    .description('import events from files exported by another product, and verify that all are stored')
    .addArgument(new Argument('<source>', 'product the files come from').choices(SOURCES))
    .argument('<files...>', 'exported files, or folders with them', (file: string, before: string[] = []) => [...before, file])
    .option('--project <id>', 'destination project', readId, 1)
    .option('--map <field=column>', 'files only: column of event, timestamp, distinct_id, uuid or properties (default: guessed from column names)', collectStrings)
    .option('--timezone <zone>', 'mixpanel only: time zone of a project created before 2023', 'UTC')
    .addOption(new Option('--persons <from>', 'posthog only: person source').choices(['events', 'export']))
    .option('--events-per-second <number>', 'send rate limit, so that live events are not delayed; 0: no limit', readRate, 5000)
    .option('--state <folder>', 'folder for progress, rejected.ndjson and proof.json (default: millrace-import-<source>-<project>)')
    .option('--dry-run', 'read and count, without sending')
    .option('--verify', 'compare the files with the stored events, without sending')
    .option(...JSON_OPTION)
    .action(async (source: Source, files: string[], options: ImportCommandOptions) => {
      await importFiles(context, source, { ...options, files })
    })
}

async function importFiles (
  context: CliContext, source: Source, { files, project, ...options }: ImportCommandOptions & { files: string[] }
): Promise<void> {
  // Rows are garbage at once: the space for new objects would grow by 90 MB to hold it, that for older ones by 100.
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=100')
  const { dryRun = false, verify = false, json } = options
  const access = await findManagementApi(context.env, context.access)
  const api = await context.api()
  const { api_token: projectKey } = await api.get('/api/projects/{project_id}', { params: { project_id: project } })
    .catch((cause: unknown) => {
      if (!(cause instanceof HttpError && cause.status === 404)) throw cause
      throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${project} for this key; npx millrace projects list shows all`, { cause })
    })
  if (projectKey === null) throw new MillraceError('MILLRACE_KEY_MISSING', `project ${project} has no project API key; create one with npx millrace projects rotate-key ${project}`)
  const stateFolder = options.state ?? `millrace-import-${source}-${project}`
  const listed = await listFiles(files, (name) => { context.stderr.write(`${name}: left out; it is no file of events\n`) })
  const { persons = source === 'posthog' && await havePersons(listed) ? 'export' : 'events' } = options
  await warnOfRetention(context, project)
  const told = new Set<string>()
  const result = await runImport({
    files: listed,
    personsFrom: persons,
    createMapperOf: () => chooseMapper(context, source, options, told),
    stateFolder,
    store: queryStoredEvents(api, project),
    url: access.url,
    projectKey,
    eventsPerSecond: options.eventsPerSecond,
    isDryRun: dryRun,
    isVerification: verify,
    onProgress: (file, rows) => { context.stderr.write(`${file}: ${rows} rows so far\n`) }
  })
  if (json === true) context.stdout.write(`${JSON.stringify(result, null, 2)}\n`)
  else print(context, result, stateFolder)
  const isIncomplete = result.broken.length > 0 || result.proof?.isComplete === false
  context.exitCode = isIncomplete ? 1 : result.rejected + result.altered > 0 ? IMPORTED_WITH_REJECTS : 0
}

/** Before anything is sent: what a rule deletes is gone soon after it was imported. */
async function warnOfRetention (context: CliContext, project: number): Promise<void> {
  const api = await context.api()
  // A key of one project may not read the rules.
  const { results } = await api.get('/api/retention').catch(() => ({ results: [] }))
  const rules = results.filter(({ what, project_id: of }) => what === 'events' && (of ?? project) === project)
  const { days = null } = rules.find(({ project_id: of }) => of !== null) ?? rules[0] ?? {}
  if (days !== null) context.stderr.write(`Retention deletes events of more than ${days} days, also right after they are imported; docs/run/operations.md says how to change that.\n`)
}

/** @param told  Mappings that were printed. */
function chooseMapper (
  context: CliContext, source: Source, { map = [], timezone }: Pick<ImportCommandOptions, 'map' | 'timezone'>, told: Set<string>
): MapperOf {
  const now = context.now()
  if (source !== 'files') {
    const mapper = source === 'posthog'
      ? createPosthogMapper(now)
      : source === 'amplitude' ? createAmplitudeMapper(now) : createMixpanelMapper({ now, timeZone: readZone(timezone) })
    return async (listColumns) => {
      if (source === 'posthog') requireColumns(await listColumns())
      return mapper
    }
  }
  return async (listColumns) => {
    const mapping = completeMapping(map, await listColumns())
    const draft = Object.entries(mapping).map(([field, column]) => `--map ${field}=${String(column)}`).join(' ')
    if (!told.has(draft)) context.stderr.write(`Mapping: ${draft}\n`)
    told.add(draft)
    return createMapper(mapping, now)
  }
}

function print (
  context: CliContext, { proof, broken, empty, days, ...counts }: ImportResult, stateFolder: string
): void {
  printFields(context, {
    ...counts,
    days: days === null ? null : `${formatDay(days[0])} to ${formatDay(days[1])}`,
    ...proof !== null && { 'stored exactly so': `${proof.equal} of ${proof.groups} days and names`, complete: proof.isComplete && broken.length === 0 ? 'yes' : 'no' }
  }, {})
  if (proof !== null && proof.differing.length > 0) {
    context.stdout.write('\n')
    printRows(context, proof.differing, [
      ['day', ({ day }) => day], ['event', ({ event }) => event], ['source', ({ source }) => source], ['stored', ({ stored }) => stored],
      ['missing', ({ missing }) => missing], ['changed', ({ changed }) => changed], ['other properties', ({ otherProperties }) => otherProperties]
    ], {})
    context.stdout.write(`\nThe receipt of an event says why: the uuids are in ${path.join(stateFolder, 'proof.json')}\n`)
  }
  for (const file of empty) context.stderr.write(`${file}: has no rows\n`)
  if (counts.altered > 0) context.stderr.write('Altered events have a text or number that cannot be stored, such as half of an emoji or 1e400: U+FFFD or null is stored instead.\n')
  for (const { file, error } of broken) context.stderr.write(`${file} was not read completely: ${error}\n`)
  if (counts.rejected > 0) context.stderr.write(`Rejected rows are in ${path.join(stateFolder, 'rejected.ndjson')}, each with its reason.\n`)
}

/** Whether one of the files begins with a row of a person. */
async function havePersons (files: readonly SourceFile[]): Promise<boolean> {
  for (const file of files) {
    const rows = readRows(file)
    // What cannot be read is told when all of it is.
    const first = await rows.next().catch(() => ({ value: undefined }))
    await rows.return(undefined)
    if (first.value !== undefined && 'row' in first.value && isPersonRow(first.value.row)) return true
  }
  return false
}

function readRate (text: string): number {
  if (!/^\d{1,7}$/.test(text)) throw new InvalidArgumentError('Give a whole number.')
  return Number(text)
}

function readZone (zone: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone
  } catch {
    throw new InvalidArgumentError('--timezone: give the name of a time zone, such as Europe/Berlin.')
  }
}
