import { type Command, InvalidArgumentError, Option } from 'commander'
import { countDeadLetters, listDeadLetters, readDeadLetterById } from '../../platform/dead-letters/read-dead-letters.ts'
import type { DeadLetterFilter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { purgeDeadLetters, replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { MillraceError } from '../../engines/errors.ts'
import { DEAD_LETTER_STAGES, type DeadLetterStage } from '../../schema/wire/streams.ts'
import type { CliContext } from '../cli-context.ts'
import { requireProject } from '../optional-services.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId, readInstant } from '../read-arguments.ts'

interface FilterOptions extends Output {
  project?: number
  event?: string
  stage?: DeadLetterStage
  reason?: string
  from?: Date
  to?: Date
  limit?: number
}

interface WorkOptions extends FilterOptions {
  dryRun?: boolean
  yes?: boolean
}

/** `millrace dead-letters list|show|stats|replay|purge`. */
export function addDeadLettersCommands (program: Command, context: CliContext): void {
  const group = program.command('dead-letters').description('inspect, replay and purge messages that could not be stored')

  addFilterOptions(group.command('list').description('list dead letters, oldest first'))
    .option('--limit <number>', 'maximum number of dead letters', readCount, 100)
    .action(async (options: FilterOptions) => {
      const filter = toFilter(options)
      const letters = await listDeadLetters(await context.nats(), { ...filter, limit: options.limit ?? 100 })
      if (letters.length === 0) await checkProject(context, options)
      printRows(context, letters, [
        ['id', ({ id }) => id],
        ['time', ({ time }) => time],
        ['stage', ({ stage }) => stage],
        ['reason', ({ reason }) => reason],
        ['project', ({ project }) => project],
        ['event', ({ event }) => event],
        ['error', ({ error }) => error.slice(0, 100)]
      ], options)
    })

  group.command('show')
    .description('show one dead letter with its content, as JSON')
    .argument('<id>', 'id from "dead-letters list"', readCount)
    .action(async (id: number) => {
      const letter = await readDeadLetterById(await context.nats(), id)
      if (letter === null) throw unknownLetter(id)
      context.stdout.write(`${JSON.stringify(letter, null, 2)}\n`)
    })

  addFilterOptions(group.command('stats').description('count dead letters by stage, reason and project'))
    .action(async (options: FilterOptions) => {
      const filter = toFilter(options)
      const counts = await countDeadLetters(await context.nats(), filter)
      if (counts.length === 0) await checkProject(context, options)
      printRows(context, counts, [
        ['stage', ({ stage }) => stage],
        ['reason', ({ reason }) => reason],
        ['project', ({ project }) => project],
        ['letters', ({ count }) => count],
        ['bytes', ({ bytes }) => bytes],
        ['oldest', ({ oldest }) => oldest],
        ['newest', ({ newest }) => newest]
      ], options)
    })

  addWorkOptions(group.command('replay').description('publish dead letters again where they came from; safe to repeat'))
    .action(async (id: number | undefined, options: WorkOptions) => {
      const work = { ...toFilter(options), ...toWork(id, options) }
      const result = await replayDeadLetters(await context.nats(), work)
      if (result.matched === 0) await checkProject(context, options)
      if (id !== undefined && result.matched === 0) throw unknownLetter(id)
      printFields(context, { ...result }, options)
    })

  addWorkOptions(group.command('purge').description('delete dead letters'))
    .option('--yes', 'delete; without it, dead letters are only counted')
    .action(async (id: number | undefined, options: WorkOptions) => {
      const dryRun = options.dryRun === true || options.yes !== true
      const work = { ...toFilter(options), ...toWork(id, options), dryRun }
      const result = await purgeDeadLetters(await context.nats(), work)
      if (result.matched === 0) await checkProject(context, options)
      if (id !== undefined && result.matched === 0) throw unknownLetter(id)
      printFields(context, { ...result }, options)
      if (dryRun && options.dryRun !== true) context.stderr.write('Nothing was deleted: add --yes to delete them.\n')
    })
}

function addFilterOptions (command: Command): Command {
  return command
    .option('--project <id>', 'only of this project', readId)
    .option('--event <name>', 'only of events with this name')
    .addOption(new Option('--stage <stage>', 'only of this stage').choices(DEAD_LETTER_STAGES))
    .option('--reason <reason>', 'only with this reason', readReason)
    .option('--from <time>', 'only from this time on (ISO 8601)', readInstant)
    .option('--to <time>', 'only from before this time (ISO 8601)', readInstant)
    .option(...JSON_OPTION)
}

function addWorkOptions (command: Command): Command {
  return addFilterOptions(command.argument('[id]', 'id of one dead letter; without it, all that match', readCount))
    .option('--limit <number>', 'maximum number of dead letters', readCount)
    .option('--dry-run', 'only count the dead letters')
}

async function checkProject (context: CliContext, { project }: FilterOptions): Promise<void> {
  if (project !== undefined) await requireProject(context, project)
}

function toFilter ({ project, event, stage, reason, from, to }: FilterOptions): DeadLetterFilter {
  if (from !== undefined && to !== undefined && from >= to) throw new InvalidArgumentError('--from must be before --to')
  return {
    ...(project === undefined ? {} : { project }),
    ...(event === undefined ? {} : { event }),
    ...(stage === undefined ? {} : { stage }),
    ...(reason === undefined ? {} : { reason }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to })
  }
}

function toWork (
  id: number | undefined, { limit, dryRun }: WorkOptions
): { id?: number, limit?: number, dryRun: boolean } {
  return {
    ...(id === undefined ? {} : { id }),
    ...(limit === undefined ? {} : { limit }),
    dryRun: dryRun === true
  }
}

/** A reason becomes part of a subject, where dots and stars have a meaning. */
function readReason (text: string): string {
  if (!/^[a-z0-9_]+$/.test(text)) throw new InvalidArgumentError('Give a reason that "dead-letters stats" shows.')
  return text
}

function unknownLetter (id: number): MillraceError {
  return new MillraceError('MILLRACE_DEAD_LETTER_NOT_FOUND', `there is no dead letter ${id} that matches`)
}
