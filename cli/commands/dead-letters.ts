import { type Command, InvalidArgumentError, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import { DEAD_LETTER_STAGES } from '../../schema/wire/streams.ts'
import type { CliContext } from '../cli-context.ts'
import { listAll, orNone } from '../management-client.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../terminal-output.ts'
import { readCount, readId, readInstant } from '../read-arguments.ts'

interface Options extends Output {
  project?: number
  event?: string
  stage?: string
  reason?: string
  from?: Date
  to?: Date
  limit?: number
  dryRun?: boolean
  yes?: boolean
  id?: number | undefined
}

const OF_ALL = '/api/dead_letters'
const OF_PROJECT = '/api/projects/{project_id}/dead_letters'

/** Dead letters of one request, and the longest wait for it, in milliseconds. */
const BATCH = 500
const BATCH_MS = 60_000

export function addDeadLettersCommands (program: Command, context: CliContext): void {
  const group = program.command('dead-letters').description('list, replay and purge events and updates that were not stored')

  addFilterOptions(group.command('list').description('list dead letters, oldest first'))
    .option('--limit <number>', 'maximum number of dead letters', readCount, 100)
    .action(async (options: Options) => {
      const { base, params, filter } = locate(options)
      const letters = await listAll(async (page) =>
        await context.api.get(base, { params, query: { ...filter, ...page } }), options.limit)
      printRows(context, letters, ['id', 'time', 'stage', 'reason', 'project', 'event', ['error', ({ error }) => error.slice(0, 100)]], options)
    })

  group.command('show')
    .description('show one dead letter with its content, as JSON')
    .argument('<id>', 'id from "dead-letters list"', readCount)
    .option('--project <id>', 'its project, for a key limited to projects', readId)
    .action(async (id: number, options: Options) => {
      const { base, params } = locate(options)
      const letter = await orNone(context.api.get(`${base}/{id}` as const, { params: { ...params, id } }))
      if (letter === undefined) throw unknownLetter(id)
      context.stdout.write(`${JSON.stringify(letter, null, 2)}\n`)
    })

  addFilterOptions(group.command('stats').description('count dead letters by stage, reason, project, code and event; most first'))
    .action(async (options: Options) => {
      const { base, params, filter: query } = locate(options)
      const { results } = await context.api.get(`${base}/groups` as const, { params, query })
      printRows(context, results, [
        'stage', 'reason', 'project', ['code', 'error_code'], 'event', ['letters', 'count'], ['oldest', 'first'], ['newest', 'last']
      ], options)
    })

  addWorkOptions(group.command('replay').description('publish dead letters to their stream again; safe to repeat'))
    .action(async (id: number | undefined, options: Options) => {
      await work(context, 'replay', { ...options, id })
    })

  addWorkOptions(group.command('purge').description('delete dead letters'))
    .option('--yes', 'delete; without it, dead letters are only counted')
    .action(async (id: number | undefined, options: Options) => {
      await work(context, 'purge', { ...options, id })
      if (options.yes !== true && options.dryRun !== true) context.stderr.write('Nothing was deleted: add --yes to delete them.\n')
    })
}

/** As many as there are now, oldest first: what a replay fails with comes behind them, and is not replayed again. */
async function work (context: CliContext, what: 'replay' | 'purge', options: Options): Promise<void> {
  const { id } = options
  const isDry = options.dryRun === true || (what === 'purge' && options.yes !== true)
  const { base, params, filter } = locate(options)
  let done = 0
  let matched = 1
  if (id !== undefined) {
    if (Object.keys(filter).length > 0) throw new InvalidArgumentError('give either an id or filters, not both')
    const one = { params: { ...params, id } }
    const found = await orNone<unknown>(isDry
      ? context.api.get(`${base}/{id}` as const, one)
      : what === 'replay' ? context.api.post(`${base}/{id}/replay` as const, one) : context.api.delete(`${base}/{id}` as const, one))
    if (found === undefined) throw unknownLetter(id)
    done = isDry ? 0 : 1
  } else {
    const { count } = await context.api.get(base, { params, query: { ...filter, limit: 1 } })
    matched = Math.min(count, options.limit ?? count)
    for (let last = isDry ? 0 : 1; last > 0 && done < matched; done += last) {
      const body = { ...filter, limit: Math.min(BATCH, matched - done) }
      const answer = await context.api.post(`${base}/${what}` as const, { params, body, timeoutMs: BATCH_MS })
      last = 'purged' in answer ? answer.purged : answer.replayed
    }
  }
  printFields(context, { matched, [what === 'replay' ? 'replayed' : 'purged']: done }, options)
}

function addFilterOptions (command: Command): Command {
  return command
    .option('--project <id>', 'only of this project', readId)
    .option('--event <name>', 'only of events with this name')
    .addOption(new Option('--stage <stage>', 'only of this stage').choices(DEAD_LETTER_STAGES))
    .option('--reason <reason>', 'only with this reason')
    .option('--from <time>', 'only from this time on (ISO 8601)', readInstant)
    .option('--to <time>', 'only from before this time (ISO 8601)', readInstant)
    .option(...JSON_OPTION)
}

function addWorkOptions (command: Command): Command {
  return addFilterOptions(command.argument('[id]', 'id of one dead letter; without it, all that match', readCount))
    .option('--limit <number>', 'maximum number of dead letters', readCount)
    .option('--dry-run', 'only count the dead letters')
}

/** The routes for one project, or those for all, which also have letters of several projects or of none. */
function locate ({ project, event, stage, reason, from, to }: Options): {
  base: typeof OF_ALL | typeof OF_PROJECT, params: Record<string, number>, filter: Record<string, string>
} {
  if (from !== undefined && to !== undefined && from >= to) throw new InvalidArgumentError('--from must be before --to')
  const given = { event, stage, reason, from: from?.toISOString(), to: to?.toISOString() }
  const filter = Object.fromEntries(Object.entries(given)
    .filter((field): field is [string, string] => field[1] !== undefined))
  return project === undefined
    ? { base: OF_ALL, params: {}, filter }
    : { base: OF_PROJECT, params: { project_id: project }, filter }
}

function unknownLetter (id: number): MillraceError {
  return new MillraceError('MILLRACE_DEAD_LETTER_NOT_FOUND', `there is no dead letter ${id}`)
}
