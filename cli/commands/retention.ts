import { type Command, InvalidArgumentError } from 'commander'
import { applyRetention } from '../../pipeline/apply-retention.ts'
import { clearRetention, listRetention, setRetention } from '../../platform/retention-rules.ts'
import type { CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId } from '../read-arguments.ts'

interface RuleOptions extends Output { project?: number, deadLetters?: boolean, days?: number, forever?: boolean }

/** `millrace retention show|set|clear|apply`. */
export function addRetentionCommands (program: Command, context: CliContext): void {
  const group = program.command('retention').description('how long events and dead letters are stored')

  group.command('show')
    .description('list the rules; a project without its own follows the rule for all')
    .option(...JSON_OPTION)
    .action(async (output: Output) => { await show(context, output) })

  group.command('set')
    .description('keep events, or dead letters, for a number of days')
    .option('--days <number>', 'full days to keep; events count by their timestamp in UTC', readDays)
    .option('--forever', 'keep forever')
    .option('--project <id>', 'only the events of this project', readId)
    .option('--dead-letters', 'the rule of dead letters instead of events')
    .option(...JSON_OPTION)
    .action(async ({ days, forever, ...rule }: RuleOptions) => {
      if ((days === undefined) === (forever !== true)) throw wrong('give either --days or --forever')
      const subject = readSubject(rule)
      await setRetention(await context.postgres(), { ...subject, days: days ?? null })
      await show(context, rule)
    })

  group.command('clear')
    .description('remove a rule; the project then follows the rule for all')
    .option('--project <id>', 'the rule of this project', readId)
    .option('--dead-letters', 'the rule of dead letters instead of events')
    .option(...JSON_OPTION)
    .action(async (rule: RuleOptions) => {
      await clearRetention(await context.postgres(), readSubject(rule))
      await show(context, rule)
    })

  group.command('apply')
    .description('delete now what the rules no longer keep, instead of within the hour')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printFields(context, {
        ...await applyRetention({
          sql: await context.postgres(),
          clickhouse: await context.clickhouse(),
          connection: await context.nats(),
          cluster: context.cluster(),
          now: context.now
        })
      }, output)
    })
}

function readSubject ({ project, deadLetters }: RuleOptions): { what: 'events' | 'dead_letters', projectId: number | null } {
  if (deadLetters !== true) return { what: 'events', projectId: project ?? null }
  if (project !== undefined) throw wrong('--project cannot be combined with --dead-letters')
  return { what: 'dead_letters', projectId: null }
}

/** An error about several options together; commander checks each alone. */
function wrong (message: string): InvalidArgumentError {
  return new InvalidArgumentError(message)
}

function readDays (text: string): number {
  const days = readCount(text)
  if (days > 36_500) throw new InvalidArgumentError('Give at most 36500 days, or --forever.')
  return days
}

async function show (context: CliContext, output: Output): Promise<void> {
  const rules = await listRetention(await context.postgres())
  const unset = (['events', 'dead_letters'] as const)
    .filter((what) => !rules.some((rule) => rule.what === what && rule.projectId === null))
    .map((what) => ({ what, projectId: null, days: null }))
  printRows(context, [...unset, ...rules], [
    ['what', ({ what }) => what.replace('_', ' ')],
    ['project', ({ projectId }) => projectId ?? 'all'],
    ['days', ({ days }) => days ?? 'forever']
  ], output)
}
