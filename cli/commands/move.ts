import { type Command, InvalidArgumentError } from 'commander'
import { type CliContext, findAddress } from '../cli-context.ts'
import type { MoveSides } from '../move/copy-tables.ts'
import { type MoveResult, reopenSource, runMove } from '../move/run-move.ts'
import { openMoveStore } from '../move/store.ts'
import { JSON_OPTION, type Output, printRows, toText } from '../terminal-output.ts'

interface MoveCommandOptions extends Output, Partial<Record<'migrate' | 'finish' | 'reopen' | 'targetLost' | 'removeExtra', true>> {
  to: string
  toCluster?: string
}

/** `millrace move clickhouse`: everything that is stored goes to another ClickHouse, with a proof. */
export function addMoveCommands (program: Command, context: CliContext): void {
  program.command('move').description('move stored events to another store')
    .command('clickhouse')
    .description('copy everything from the ClickHouse in use (that of the stack, or CLICKHOUSE_URL with MILLRACE_CLICKHOUSE_CLUSTER) to another\n' +
      'one, and compare both. Safe to repeat: events keep being stored, and each run copies the new ones. With --finish, the\n' +
      'source is closed: events wait in the stream until the pipeline runs on the target. Exits with 0 when both are equal')
    .requiredOption('--to <url>', 'address of the target with an administrator\'s login, such as https://user:password@host:8443/millrace', readStore)
    .option('--to-cluster <name>', 'name of the cluster in remote_servers of the target; default: a single server')
    .option('--migrate', 'create the tables of the target first')
    .option('--finish', 'close the source, copy the rest, and print the settings to change')
    .option('--reopen', 'reopen a source closed by --finish, as long as the pipeline has stored nothing in the target')
    .option('--target-lost', 'with --reopen, for a target that is unreachable and that the pipeline has never used')
    .option('--remove-extra', 'remove rows from the target that the source no longer has')
    .option(...JSON_OPTION)
    .action(async (options: MoveCommandOptions) => { await move(context, options) })
}

function readStore (text: string): string {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidArgumentError('Use an address such as https://user:password@host:8443/millrace.')
  if (url.pathname === '/') url.pathname = '/millrace'
  return url.href
}

async function move (context: CliContext, options: MoveCommandOptions): Promise<void> {
  const { to: target, toCluster = '', migrate = false, finish = false, reopen, targetLost = false, removeExtra = false } = options
  if (targetLost && reopen !== true) throw new InvalidArgumentError('Give --target-lost with --reopen.')
  if (finish && reopen === true) throw new InvalidArgumentError('Give --finish or --reopen.')
  const from = openMoveStore(await findAddress(context.env, 'CLICKHOUSE_URL'), await context.cluster())
  const to = openMoveStore(target, toCluster)
  const sides: MoveSides = { from, to, removeExtra, onProgress: (what) => { context.stderr.write(`${what}\n`) } }
  try {
    if (reopen === true) {
      await reopenSource(sides, targetLost)
      context.stdout.write(`${from.name} is open: events are stored there\n`)
      return
    }
    const result = await runMove({ ...sides, migrate, finish })
    for (const what of result.not_moved) context.stderr.write(`not moved, because Millrace did not create it: ${toText(what)}\n`)
    if (options.json === true) context.stdout.write(`${JSON.stringify(result, null, 2)}\n`)
    else print(context, result)
    context.exitCode = result.isEqual ? 0 : 1
    if (options.json !== true) context.stdout.write(whatNext(result, { from: from.name, to: to.name, toCluster }))
  } finally {
    await Promise.all([from.close(), to.close()])
  }
}

/** Days and events that are listed; `--json` has all. */
const LISTED = 50

function print (context: CliContext, { months, tables, differing }: MoveResult): void {
  printRows(context, months, ['month', ['days and events', 'days_and_events'], 'source', 'target', ['differ', 'differing']], {})
  context.stdout.write('\n')
  printRows(context, tables, ['table', 'source', 'target', ['', ({ isEqual }) => isEqual ? 'equal' : 'differs']], {})
  if (differing.length === 0) return
  context.stdout.write('\n')
  printRows(context, differing.slice(0, LISTED), ['day', 'event', 'source', 'target'], {})
  if (differing.length > LISTED) context.stdout.write(`and ${differing.length - LISTED} more: --json has all\n`)
}

function whatNext (result: MoveResult, sides: { from: string, to: string, toCluster: string }): string {
  const { from, to, toCluster } = sides
  const counted = `\n${result.months.reduce((sum, { source }) => sum + source, 0)} events; this run copied ${result.copied}.`
  if (!result.isEqual) return `${counted} The sides are not equal: repeat the command.\n`
  if (result.before !== null) return `${counted} Both sides are equal up to ${result.before}. Repeat it, or end the move with --finish.\n`
  const cluster = toCluster === '' ? '' : ` and MILLRACE_CLICKHOUSE_CLUSTER=${toCluster}`
  return `${counted} Both sides are equal, and ${from} is closed: events wait in the stream.
Now set CLICKHOUSE_URL to ${to}${cluster} for pipeline, API and migrations${toCluster === '' ? '' : ` (the API: database ${to.split('/').at(-1)}_all)`}, and start them again.
${from} stays as it is. To go back before that: the same command with --reopen instead of --finish.
`
}
