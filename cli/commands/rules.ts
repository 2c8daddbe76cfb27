import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Answer } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { namingPlace, readDefinition } from '../definition-files.ts'
import { orNone } from '../management-client.ts'
import { readCount, readId, readString } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

type EventRule = Answer<'/api/projects/{project_id}/rules'>['results'][number]
type RuleVersion = Answer<'/api/projects/{project_id}/rules/{id}/versions'>['results'][number]
type RuleDefinition = Pick<RuleVersion, 'condition' | 'actions' | 'tests'>
type Prediction = Answer<'/api/projects/{project_id}/rules/{id}/check', 'post'>

interface RuleOptions extends Output {
  project: number
  ruleVersion?: number
  basedOn?: number
  position?: number
  description?: string
  days: number
}

interface CheckOptions extends Output {
  project: number
  file?: string
  days: number
  limit: number
}

/** `millrace rules list|show|put|check|activate|disable`. */
export function addRulesCommands (program: Command, context: CliContext): void {
  const group = program.command('rules').description('rules that keep events or properties out, by name')

  addCommon(group.command('list').description('list the rules of a project in their order, with what they did'))
    .option('--days <number>', 'count the events of so many days', readDays, 7)
    .action(async ({ project, days, ...output }: RuleOptions) => {
      const api = await context.api()
      const results = await listAll(context, project)
      const { results: counts } = await api.get('/api/projects/{project_id}/rules/counts', { params: { project_id: project }, query: { days } })
      const done = new Map(counts.map((each) => [each.rule, each]))
      const rows = results.map((rule) => ({ dropped: 0, sampled: 0, changed: 0, ...done.get(rule.id), ...rule }))
      printRows(context, rows, [
        ['rule', ({ name }) => name],
        ['position', ({ position }) => position],
        ['version', ({ version }) => version],
        ['active', ({ active_version: active }) => active],
        ['dropped', ({ dropped }) => dropped],
        ['sampled', ({ sampled }) => sampled],
        ['changed', ({ changed }) => changed],
        ['updated', ({ updated_at: updated }) => updated]
      ], output)
    })

  addCommon(addName(group.command('show').description('write a version of a rule as JSON; by default the newest')))
    .option('--rule-version <number>', 'the version', readCount)
    .action(async (name: string, { project, ruleVersion: version }: RuleOptions) => {
      const { condition, actions, tests } = await readVersion(context, { project, name }, version)
      context.stdout.write(`${JSON.stringify({ condition, actions, tests }, null, 2)}\n`)
    })

  addCommon(addName(group.command('put').description('store a rule, or a new version of one, if its tests pass; it is enforced when it is activated')))
    .argument('<file>', 'file with the rule: condition, actions, tests')
    .option('--based-on <version>', 'the version that the file was made of: refused when there is a newer one', readCount)
    .option('--position <number>', 'rules run in this order; by default after the others', readCount)
    .option('--description <text>', 'what the rule is for', readString(3000))
    .action(async (name: string, file: string, options: RuleOptions) => {
      const { project, position, description, basedOn: version, ...output } = options
      const fields = { ...await readRule(file), ...position && { position }, ...description && { description } }
      const known = (await listAll(context, project)).find((each) => each.name === name)
      const stored = await namingPlace(REFUSED, async () => known === undefined
        ? await (await context.api()).post('/api/projects/{project_id}/rules', { params: { project_id: project }, body: { name, ...fields } })
        : await update(context, { project, id: known.id }, { ...fields, ...version && { version } }))
      printFields(context, describe(stored), output)
    })

  addCommon(addName(group.command('check').description('say what a rule would have done with stored events; by default its newest version')))
    .option('--file <file>', 'a draft that is not stored: file with the rule')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 7)
    .option('--limit <number>', 'maximum number of events, newest day first', readCount, 10_000_000)
    .action(async (name: string, { project, file, days, limit, ...output }: CheckOptions) => {
      const draft = file === undefined ? {} : await readRule(file)
      const { id } = await find(context, { project, name })
      const api = await context.api()
      const prediction = await namingPlace(REFUSED, async () =>
        await api.post('/api/projects/{project_id}/rules/{id}/check', {
          params: { project_id: project, id }, body: { ...draft, days, limit }, timeoutMs: LOOK_BACK_MS
        }))
      printPrediction(context, prediction, output)
    })

  addCommon(addName(group.command('activate').description('enforce a rule; by default its newest version')))
    .option('--rule-version <number>', 'the version', readCount)
    .action(async (name: string, { project, ruleVersion: version, ...output }: RuleOptions) => {
      const { id, version: newest } = await find(context, { project, name })
      const fields = { active_version: version ?? newest }
      const stored = await namingPlace(REFUSED, async () => await update(context, { project, id }, fields))
      printFields(context, describe(stored), output)
    })

  addCommon(addName(group.command('disable').description('no longer enforce a rule; its versions stay')))
    .action(async (name: string, { project, ...output }: RuleOptions) => {
      const { id } = await find(context, { project, name })
      printFields(context, describe(await update(context, { project, id }, { active_version: null })), output)
    })
}

function printPrediction (context: CliContext, prediction: Prediction, output: Output): void {
  const { names, libs, samples, ...counts } = prediction
  if (output.json === true) return printFields(context, { ...prediction }, output)
  printFields(context, counts, output)
  if (counts.matched === 0) return
  context.stdout.write('\n')
  printRows(context, names, [
    ['event', ({ event }) => event], ['events', ({ events }) => events], ['matched', ({ matched }) => matched]
  ], output)
  context.stdout.write('\n')
  printRows(context, libs, [
    ['sdk', ({ lib, lib_version: version }) => `${lib} ${version}`.trim() || '-'],
    ['events', ({ events }) => events],
    ['matched', ({ matched }) => matched]
  ], output)
  context.stdout.write('\n')
  printRows(context, samples, [['matched event', ({ event }) => event], ['uuid', ({ uuid }) => uuid]], output)
}

function addCommon (command: Command): Command {
  return command.option('--project <id>', 'the project', readId, 1).option(...JSON_OPTION)
}

function addName (command: Command): Command {
  return command.argument('<name>', 'name of the rule', readString(100))
}

function readDays (text: string): number {
  const days = readCount(text)
  if (days > 365) throw new InvalidArgumentError('Give 1 to 365 days.')
  return days
}

function describe (stored: EventRule): Record<string, unknown> {
  const { name, position, version, active_version: active, description } = stored
  return { name, position, version, active_version: active, description }
}

interface Named { project: number, name: string }

/** A project has at most 1,000. */
async function listAll (context: CliContext, project: number): Promise<EventRule[]> {
  const api = await context.api()
  return (await api.get('/api/projects/{project_id}/rules', { params: { project_id: project }, query: { limit: 1000 } })).results
}

async function find (context: CliContext, { project, name }: Named): Promise<EventRule> {
  const found = (await listAll(context, project)).find((each) => each.name === name)
  if (found === undefined) throw new MillraceError('MILLRACE_RULE_NOT_FOUND', `project ${project} has no rule ${name}`)
  return found
}

async function update (
  context: CliContext, { project, id }: { project: number, id: number }, fields: object
): Promise<EventRule> {
  const api = await context.api()
  return await api.patch('/api/projects/{project_id}/rules/{id}', { params: { project_id: project, id }, body: fields })
}

async function readVersion (context: CliContext, named: Named, version?: number): Promise<RuleDefinition> {
  const newest = await find(context, named)
  if (version === undefined) return newest
  const api = await context.api()
  const found = await orNone(api.get('/api/projects/{project_id}/rules/{id}/versions', {
    params: { project_id: named.project, id: newest.id }, query: { version, deleted: true, limit: 1 }
  }))
  if (found?.results[0] === undefined) throw new MillraceError('MILLRACE_RULE_NOT_FOUND', `the rule ${named.name} has no version ${version}`)
  return found.results[0]
}

/** Longest wait for a look back over stored events, in milliseconds. */
const LOOK_BACK_MS = 600_000

const REFUSED = 'MILLRACE_RULE_REFUSED'

const FIELDS = ['condition', 'actions', 'tests'] as const

async function readRule (file: string): Promise<RuleDefinition> {
  const rule = await readDefinition(file, { what: 'a rule', code: 'MILLRACE_RULE_UNREADABLE' })
  const names = typeof rule === 'object' && rule !== null ? Object.keys(rule) : []
  const unknown = names.find((name) => !FIELDS.some((field) => field === name))
  if (unknown !== undefined || !names.includes('actions')) {
    throw new MillraceError('MILLRACE_RULE_UNREADABLE', `${file} has ${unknown === undefined ? 'no actions' : `the field ${unknown}`}: a rule is an object of ${FIELDS.join(', ')}`)
  }
  return { condition: null, tests: [], ...rule as Pick<RuleDefinition, 'actions'> }
}
