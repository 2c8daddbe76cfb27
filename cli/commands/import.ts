import path from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { parseTimezone } from '../../engines/operators/match-date.ts'
import { createAmplitudeMapper } from '../../engines/import/from-amplitude.ts'
import { completeMapping, createMapper } from '../../engines/import/from-mapping.ts'
import { createMixpanelMapper } from '../../engines/import/from-mixpanel.ts'
import { createPosthogMapper, type PosthogTarget, requireColumns } from '../../engines/import/from-posthog.ts'
import type { CliContext } from '../cli-context.ts'
import { queryStoredEvents } from '../import/query-store.ts'
import { listFiles } from '../import/list-files.ts'
import { createReporter, describeUnread } from '../import/report-import.ts'
import type { ImportResult, MapperOf } from '../import/import-options.ts'
import { runImport } from '../import/run-import.ts'
import { findManagementApi } from '../management-client.ts'
import { collectStrings, readId } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

const SOURCES = ['posthog', 'mixpanel', 'amplitude', 'files'] as const
type Source = typeof SOURCES[number]

interface ImportCommandOptions extends Output {
  project: number
  map?: string[]
  timezone?: string
  persons?: 'events' | 'export'
  eventsPerSecond: number
  state?: string
  dryRun?: true
  verify?: true
}

export function addImportCommands (program: Command, context: CliContext): void {
  program.command('import')
    .description('import events from files exported by another product, and verify that all are stored')
    .addArgument(new Argument('<source>', 'product the files come from').choices(SOURCES))
    .argument('<files...>', 'exported files, or folders with them', (file: string, before: string[] = []) => [...before, file])
    .option('--project <id>', 'destination project', readId, 1)
    .option('--map <field=column>', 'files only: column of event, timestamp, distinct_id, uuid or properties (default: guessed from column names)', collectStrings)
    .option('--timezone <zone>', 'mixpanel only: time zone of a project created before 2023 (default: UTC)')
    .addOption(new Option('--persons <from>', 'posthog only: what sets properties of persons: rows of persons only (export), or events too (events); default: export').choices(['events', 'export']))
    .option('--events-per-second <number>', 'send rate limit, so that live events are not delayed; 0: no limit', readRate, 5000)
    .option('--state <folder>', 'folder for progress, rejected.ndjson and proof.json (default: millrace-import-<source>-<project>)')
    .option('--dry-run', 'read and count, without sending')
    .addOption(new Option('--verify', 'compare the files with the stored events, without sending').conflicts('dryRun'))
    .option(...JSON_OPTION)
    .action(async (source: Source, files: string[], options: ImportCommandOptions) => {
      await importFiles(context, source, files, options)
    })
}

async function importFiles (
  context: CliContext, source: Source, files: string[], options: ImportCommandOptions
): Promise<void> {
  // Rows are garbage at once: the space for new objects would grow by 90 MB to hold it, that for older ones by 100.
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=100')
  const { project, dryRun = false, verify = false, json, map = [] } = options
  const foreign = ([['map', 'files'], ['timezone', 'mixpanel'], ['persons', 'posthog']] as const)
    .find(([option, of]) => options[option] !== undefined && source !== of)
  if (foreign !== undefined) throw new InvalidArgumentError(`--${foreign[0]} is an option of ${foreign[1]}, not of ${source}`)
  if (parseTimezone(options.timezone ?? 'UTC') === null) throw new InvalidArgumentError('--timezone: give the name of a time zone, such as Europe/Berlin.')
  const wrong = map.find((each) => !/^(?:event|timestamp|distinct_id|uuid|properties)=./.test(each))
  if (wrong !== undefined) throw new InvalidArgumentError(`--map ${wrong}: expected event, timestamp, distinct_id, uuid or properties, such as event=name`)
  const access = await findManagementApi(context.env, context.access)
  const { api_token: projectKey } = await context.api.get('/api/projects/{project_id}', { params: { project_id: project } })
  if (projectKey === null) throw new MillraceError('MILLRACE_KEY_MISSING', `project ${project} has no project API key; create one with npx millrace projects rotate-key ${project}`)
  const stateFolder = options.state ?? `millrace-import-${source}-${project}`
  const notices = new Set<string>()
  const notice = (text: string): void => {
    if (!notices.has(text)) context.stderr.write(`${text}\n`)
    notices.add(text)
  }
  const listed = await listFiles(files, (name) => { notice(`${name}: left out; it is not an event file`) })
  const { persons = source === 'posthog' ? 'export' : 'events' } = options
  const others = persons === 'export' ? 'from person rows only, not from events. Without an export of persons, pass --persons events' : 'from events too, including those of earlier imports; --persons export: person rows only'
  if (source === 'posthog') notice(`Persons: ${others}.`)
  await warnOfRetention(context, project, notice)
  const mode = dryRun ? 'dry run' : verify ? 'verification' : 'import'
  const reporter = createReporter(context.api, {
    source, project, mode, notices, files: listed, options: describeOptions({ ...options, persons: source === 'posthog' ? persons : undefined }),
    tell: (why) => { context.stderr.write(`The import continues, but the API may not show all of its progress: ${why}\n`) }
  })
  const result = await runImport({
    reporter, mode, source, project, projectKey, stateFolder, files: listed, personsFrom: persons, url: access.url,
    eventsPerSecond: options.eventsPerSecond,
    store: queryStoredEvents(context.api, project),
    createMapperOf: () => chooseMapper(source, { project, now: context.now(), personsFrom: persons }, options, notice),
    onProgress: (file, rows) => { context.stderr.write(`${file}: ${rows} rows so far\n`) }
  })
  if (json === true) context.stdout.write(`${JSON.stringify(result, null, 2)}\n`)
  else print(context, result, stateFolder)
  context.exitCode = result.exitCode
}

/** Those that say how the files are read and sent. */
function describeOptions (
  { map = [], timezone, persons, eventsPerSecond }: Omit<ImportCommandOptions, 'project' | 'persons'> & { persons: string | undefined }
): string[] {
  const given = { timezone, persons, 'events-per-second': eventsPerSecond }
  return [...map.map((each) => `--map ${each}`), ...Object.entries(given).flatMap(([name, value]) => value === undefined ? [] : [`--${name} ${value}`])]
}

/** Before anything is sent: what a rule deletes is gone soon after it was imported. */
async function warnOfRetention (context: CliContext, project: number, notice: (text: string) => void): Promise<void> {
  // A key of one project may not read the rules.
  const { results } = await context.api.get('/api/retention').catch(() => ({ results: [] }))
  const rules = results.filter(({ what, project_id: of }) => what === 'events' && (of ?? project) === project)
  const { days = null } = rules.find(({ project_id: of }) => of !== null) ?? rules[0] ?? {}
  if (days !== null) notice(`Retention deletes events older than ${days} days, even right after their import; see docs/run/operations.md to change that.`)
}

/** @param notice  Called with the mapping of each file. */
function chooseMapper (
  source: Source, target: PosthogTarget, { map = [], timezone = 'UTC' }: Pick<ImportCommandOptions, 'map' | 'timezone'>, notice: (text: string) => void
): MapperOf {
  const mappers = {
    posthog: createPosthogMapper(target), amplitude: createAmplitudeMapper(target),
    mixpanel: createMixpanelMapper({ now: target.now, timeZone: timezone })
  }
  return async (listColumns) => {
    if (source === 'posthog') requireColumns(await listColumns())
    if (source !== 'files') return mappers[source]
    const mapping = completeMapping(map, await listColumns())
    notice(`Mapping: ${Object.entries(mapping).map(([field, column]) => `--map ${field}=${String(column)}`).join(' ')}`)
    return createMapper(mapping, target)
  }
}

function print (context: CliContext, { proof, broken, empty, ...result }: ImportResult, stateFolder: string): void {
  const { rows, events, duplicates, rejected, altered, days, sentNow, storedNow } = result
  const conflicts = Object.entries(result.conflicts).map(([group, rows]) => ({ group, rows }))
  printFields(context, {
    ...{ rows, events, duplicates, rejected, altered, conflicting: conflicts.reduce((sum, { rows }) => sum + rows, 0) },
    days: days?.join(' to ') ?? null,
    ...proof !== null && { 'sent now': sentNow, 'stored now': storedNow, 'stored exactly so': `${proof.equal} of ${proof.groups} days and names`, complete: proof.isComplete ? 'yes' : 'no' }
  }, {})
  if (proof !== null && proof.differing.length > 0) {
    context.stdout.write('\n')
    printRows(context, proof.differing, ['day', 'event', 'source', 'stored', 'missing', 'changed', ['other properties', 'otherProperties']], {})
    const isMissing = proof.differing.some(({ missing }) => missing > 0)
    context.stdout.write(`\nThe uuids are in ${path.join(stateFolder, 'proof.json')}${isMissing ? '; receipts explain each missing event' : ''}.\n`)
  }
  for (const text of describeUnread(result.unread)) context.stderr.write(`${text}\n`)
  for (const file of empty) context.stderr.write(`${file}: has no rows\n`)
  if (altered > 0) context.stderr.write('Altered events have a text or number that cannot be stored, such as half of an emoji or 1e400: U+FFFD or null is stored instead, or a number as its text.\n')
  if (conflicts.length > 0) printRows(context, conflicts, [['events in several versions, of which one is stored', 'group'], 'rows'], {})
  for (const { file, error } of broken) context.stderr.write(`${file} was not read completely: ${error}\n`)
  if (rejected > 0) context.stderr.write(`Rejected rows are in ${path.join(stateFolder, 'rejected.ndjson')}, each with its reason.\n`)
}

function readRate (text: string): number {
  if (!/^\d{1,7}$/.test(text)) throw new InvalidArgumentError('Give a whole number.')
  return Number(text)
}
