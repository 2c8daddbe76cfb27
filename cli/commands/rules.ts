import { type Command, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Answer } from '../../schema/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { readCount, readDays, readString } from '../read-arguments.ts'
import { type Output, printFields, printRows } from '../terminal-output.ts'
import {
  addDefinitionCommands, addProject, type DefinitionKind, type Fields, LOOK_BACK_MS, readJsonFile
} from './definition-commands.ts'

type EventRule = Answer<'/api/projects/{project_id}/rules'>['results'][number]
type RuleVersion = Answer<'/api/projects/{project_id}/rules/{id}/versions'>['results'][number]
type Prediction = Answer<'/api/projects/{project_id}/rules/{id}/check', 'post'>

/** `millrace rules list|show|put|check|activate|disable`. */
export function addRulesCommands (program: Command, context: CliContext): void {
  const group = program.command('rules').description('rules that keep events or properties out, by name')

  addProject(group.command('list').description('list the rules of a project in their order, with what they did'))
    .option('--days <number>', 'count the events of so many days', readDays, 7)
    .action(async ({ project, days, ...output }: Output & { project: number, days: number }) => {
      const api = await context.api()
      const results = await RULES.requests.list(api, project)
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

  addDefinitionCommands(group, context, RULES)
}

const RULES: DefinitionKind<EventRule, RuleVersion, Prediction> = {
  noun: 'rule',
  texts: { name: '<name>', describeName: 'name of the rule', file: 'the rule: condition, actions, tests', putDetails: ', if its tests pass' },
  maxNameLength: 100,
  codes: { missing: 'MILLRACE_RULE_NOT_FOUND', refused: 'MILLRACE_RULE_REFUSED' },
  nameOf: ({ name }) => name,
  title: (name) => `rule ${name}`,
  requests: {
    list: async (api, project) =>
      (await api.get('/api/projects/{project_id}/rules', { params: { project_id: project }, query: { limit: 1000 } })).results,
    create: async (api, project, body) => await api.post('/api/projects/{project_id}/rules', { params: { project_id: project }, body }),
    update: async (api, { project, id }, body) =>
      await api.patch('/api/projects/{project_id}/rules/{id}', { params: { project_id: project, id }, body }),
    version: async (api, { project, id }, version) => (await api.get('/api/projects/{project_id}/rules/{id}/versions', {
      params: { project_id: project, id }, query: { version, deleted: true, limit: 1 }
    })).results[0],
    check: async (api, { project, id }, body) => await api.post('/api/projects/{project_id}/rules/{id}/check', {
      params: { project_id: project, id }, body, timeoutMs: LOOK_BACK_MS
    })
  },
  contentOf: ({ condition, actions, tests }) => ({ condition, actions, tests }),
  readFile: readRule,
  options: () => ({
    put: [
      new Option('--position <number>', 'rules run in this order; by default after the others').argParser(readCount),
      new Option('--description <text>', 'what the rule is for').argParser(readString(3000))
    ],
    activate: []
  }),
  describe: ({ name, position, version, active_version: active, description }) =>
    ({ name, position, version, active_version: active, description }),
  printPrediction
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

const FIELDS = ['condition', 'actions', 'tests'] as const

async function readRule (file: string): Promise<Fields> {
  const rule = await readJsonFile(file, { what: 'a rule', code: 'MILLRACE_RULE_UNREADABLE' })
  const fields = typeof rule === 'object' && rule !== null ? rule : {}
  const unknown = Object.keys(fields).find((name) => !FIELDS.some((field) => field === name))
  if (unknown !== undefined || !('actions' in fields)) {
    throw new MillraceError('MILLRACE_RULE_UNREADABLE', `${file} has ${unknown === undefined ? 'no actions' : `the field ${unknown}`}: a rule is an object of ${FIELDS.join(', ')}`)
  }
  return { condition: null, tests: [], ...fields }
}
