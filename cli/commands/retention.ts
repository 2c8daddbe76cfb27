import { type Command, InvalidArgumentError } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { JSON_OPTION, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId } from '../read-arguments.ts'

interface RuleOptions extends Output { project?: number, deadLetters?: boolean, days?: number, forever?: boolean }

/** `millrace retention show|set|clear`. */
export function addRetentionCommands (program: Command, context: CliContext): void {
  const group = program.command('retention').description('how long events and dead letters are stored')

  group.command('show')
    .description('list the rules; a project without its own follows the rule for all')
    .option(...JSON_OPTION)
    .action(async (output: Output) => { await show(context, output) })

  group.command('set')
    .description('keep events, or dead letters, for a number of days; what is older is deleted within an hour')
    .option('--days <number>', 'full days to keep; events count by their timestamp in UTC', readCount)
    .option('--forever', 'keep forever')
    .option('--project <id>', 'only the events of this project', readId)
    .option('--dead-letters', 'the rule of dead letters instead of events')
    .option(...JSON_OPTION)
    .action(async ({ days, forever, ...rule }: RuleOptions) => {
      if ((days === undefined) === (forever !== true)) throw new InvalidArgumentError('give either --days or --forever')
      const subject = readSubject(rule)
      const api = await context.api()
      await api.post('/api/retention', { body: { project_id: null, ...subject, days: days ?? null } })
      await show(context, rule)
    })

  group.command('clear')
    .description('remove a rule; the project then follows the rule for all')
    .option('--project <id>', 'the rule of this project', readId)
    .option('--dead-letters', 'the rule of dead letters instead of events')
    .option(...JSON_OPTION)
    .action(async (rule: RuleOptions) => {
      const query = readSubject(rule)
      const api = await context.api()
      await api.delete('/api/retention', { query })
      await show(context, rule)
    })
}

function readSubject ({ project, deadLetters }: RuleOptions): { what: 'events' | 'dead_letters', project_id?: number } {
  if (deadLetters !== true) return { what: 'events', ...project !== undefined && { project_id: project } }
  if (project !== undefined) throw new InvalidArgumentError('--project cannot be combined with --dead-letters')
  return { what: 'dead_letters' }
}

async function show (context: CliContext, output: Output): Promise<void> {
  const api = await context.api()
  const { results: rules } = await api.get('/api/retention')
  const unset = (['events', 'dead_letters'] as const)
    .filter((what) => !rules.some((rule) => rule.what === what && rule.project_id === null))
    .map((what) => ({ what, project_id: null, days: null }))
  printRows(context, [...unset, ...rules], [
    ['what', ({ what }) => what.replace('_', ' ')],
    ['project', ({ project_id: project }) => project ?? 'all'],
    ['days', ({ days }) => days ?? 'forever']
  ], output)
}
