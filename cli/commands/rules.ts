import { type Command, InvalidArgumentError } from 'commander'
import { compileDraftRule, EVENT_RULES, type EventRule } from '../../api/enforcement/rules/event-rule.ts'
import { createDefinition, updateDefinition } from '../../api/enforcement/change-definitions.ts'
import { findDefinition, listDefinitions, listVersions, type NamedKey } from '../../api/enforcement/versioned-definitions.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { checkStoredEventsByRule, type RulePrediction } from '../../api/enforcement/rules/check-stored-rules.ts'
import { readRuleCounts } from '../../api/enforcement/rules/read-rule-counts.ts'
import type { RuleDefinition } from '../../engines/rules/rule-definition.ts'
import type { CliContext } from '../cli-context.ts'
import { namingPlace, readDefinition } from '../definition-files.ts'
import { requireProject } from '../optional-services.ts'
import { readCount, readId, readString } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows, showLookBack } from '../terminal-output.ts'

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
      const all = { projectId: project, limit: 1000, offset: 0 }
      const { results } = await listDefinitions(await context.postgres(), EVENT_RULES, all)
      const query = { projectId: project, days, now: context.now() }
      const counts = await readRuleCounts(await context.clickhouse(), query, results)
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
      const key = { projectId: project, name }
      const { condition, actions, tests } = await readVersion(await context.postgres(), key, version)
      context.stdout.write(`${JSON.stringify({ condition, actions, tests }, null, 2)}\n`)
    })

  addCommon(addName(group.command('put').description('store a rule, or a new version of one, if its tests pass; it is enforced when it is activated')))
    .argument('<file>', 'file with the rule: condition, actions, tests')
    .option('--based-on <version>', 'the version that the file was made of: refused when there is a newer one', readCount)
    .option('--position <number>', 'rules run in this order; by default after the others', readCount)
    .option('--description <text>', 'what the rule is for', readString(3000))
    .action(async (name: string, file: string, options: RuleOptions) => {
      const { project, position, description, basedOn: version, ...output } = options
      const sql = await context.postgres()
      const fields = { ...await readRule(file), ...position && { position }, ...description && { description } }
      const key = { projectId: project, name }
      const known = await findDefinition(sql, EVENT_RULES, key).catch(isNotFound)
      const stored = await namingPlace(REFUSED, async () => known === null
        ? await createDefinition(sql, EVENT_RULES, { projectId: project, userId: null }, { name, ...fields })
        : await updateDefinition(sql, EVENT_RULES, key, {
          fields: { ...fields, ...version && { version } }, userId: null
        }))
      printFields(context, describe(stored), output)
    })

  addCommon(addName(group.command('check').description('say what a rule would have done with stored events; by default its newest version')))
    .option('--file <file>', 'a draft that is not stored: file with the rule')
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 7)
    .option('--limit <number>', 'maximum number of events, newest day first', readCount, 10_000_000)
    .action(async (name: string, { project, file, days, limit, ...output }: CheckOptions) => {
      const key = { projectId: project, name }
      const draft = file === undefined ? await find(await context.postgres(), key) : await readRule(file)
      const compiled = await namingPlace(REFUSED, () => compileDraftRule(draft))
      const query = { projectId: project, days, limit, now: context.now() }
      const clickhouse = await context.clickhouse()
      const prediction = await showLookBack(context, async (onProgress) =>
        await checkStoredEventsByRule(clickhouse, compiled, { ...query, onProgress }))
      if (prediction.events === 0) await requireProject(context, project)
      printPrediction(context, prediction, output)
    })

  addCommon(addName(group.command('activate').description('enforce a rule; by default its newest version')))
    .option('--rule-version <number>', 'the version', readCount)
    .action(async (name: string, { project, ruleVersion: version, ...output }: RuleOptions) => {
      const sql = await context.postgres()
      const key = { projectId: project, name }
      const fields = { active_version: version ?? (await find(sql, key)).version }
      const update = async (): Promise<EventRule> =>
        await updateDefinition(sql, EVENT_RULES, key, { fields, userId: null })
      printFields(context, describe(await namingPlace(REFUSED, update)), output)
    })

  addCommon(addName(group.command('disable').description('no longer enforce a rule; its versions stay')))
    .action(async (name: string, { project, ...output }: RuleOptions) => {
      const sql = await context.postgres()
      const key = { projectId: project, name }
      await find(sql, key)
      const fields = { active_version: null }
      printFields(context, describe(await updateDefinition(sql, EVENT_RULES, key, { fields, userId: null })), output)
    })
}

function printPrediction (context: CliContext, prediction: RulePrediction, output: Output): void {
  const { names, libs, samples, ...counts } = prediction
  if (output.json === true) return printFields(context, { ...prediction }, output)
  const { withoutAddress, ...shown } = counts
  printFields(context, { ...shown, without_address: withoutAddress }, output)
  if (counts.matched === 0) return
  context.stdout.write('\n')
  printRows(context, names, [
    ['event', ({ event }) => event], ['events', ({ events }) => events], ['matched', ({ matched }) => matched]
  ], output)
  context.stdout.write('\n')
  printRows(context, libs, [
    ['sdk', ({ lib, libVersion }) => `${lib} ${libVersion}`.trim() || '-'],
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

async function find (sql: Sql, key: NamedKey): Promise<EventRule> {
  const found = await findDefinition(sql, EVENT_RULES, key).catch(isNotFound)
  if (found === null) throw new MillraceError('MILLRACE_RULE_NOT_FOUND', `project ${key.projectId} has no rule ${key.name}`)
  return found
}

async function readVersion (sql: Sql, key: NamedKey, version?: number): Promise<RuleDefinition> {
  if (version === undefined) return await find(sql, key)
  const query = { ...key, version, deleted: true, limit: 1, offset: 0 }
  const found = await listVersions(sql, EVENT_RULES, query).catch(isNotFound)
  if (found === null) throw new MillraceError('MILLRACE_RULE_NOT_FOUND', `the rule ${key.name} has no version ${version}`)
  return found.results[0]!
}

const REFUSED = 'MILLRACE_RULE_REFUSED'

function isNotFound (error: unknown): null {
  if (error instanceof MillraceError && error.code === 'not_found') return null
  throw error
}

const FIELDS = ['condition', 'actions', 'tests'] as const

async function readRule (file: string): Promise<RuleDefinition> {
  const rule = await readDefinition(file, { what: 'a rule', code: 'MILLRACE_RULE_UNREADABLE' })
  const names = typeof rule === 'object' && rule !== null ? Object.keys(rule) : []
  const unknown = names.find((name) => !FIELDS.some((field) => field === name))
  if (unknown !== undefined || !names.includes('actions')) {
    throw new MillraceError('MILLRACE_RULE_UNREADABLE', `${file} has ${unknown === undefined ? 'no actions' : `the field ${unknown}`}: a rule is an object of ${FIELDS.join(', ')}`)
  }
  return { condition: null, tests: [], ...rule as RuleDefinition }
}
