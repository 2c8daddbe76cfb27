import type { Command } from 'commander'
import { checkUpgrade, type UpgradePlan } from '../check-upgrade.ts'
import { loadStreamLimits } from '../backup/load-backup.ts'
import type { CliContext } from '../cli-context.ts'
import { howToApply } from '../../schema/migrate/schema-versions.ts'
import { OLDEST_NATS_SERVER } from '../../platform/nats/nats-server-floor.ts'
import { collectStrings } from '../read-arguments.ts'
import { JSON_OPTION, type Output } from '../terminal-output.ts'
import { findTiers } from './status.ts'

/** Exit code of `upgrade --check` when something is to be done. */
export const UPGRADE_WAITS = 4

interface UpgradeOptions extends Output {
  check: true
  ingest?: string[]
  pipeline?: string[]
  api?: string[]
}

/** `millrace upgrade --check`: what an upgrade to this version will do, before it is done. */
export function addUpgradeCommands (program: Command, context: CliContext): void {
  program.command('upgrade')
    .description('say what an upgrade of the running system to this version will do, with the settings that its processes will get;\n' +
      'changes nothing. Exits with 0 when nothing is to be done, with 4 when something is, with 1 when a newer version runs')
    .requiredOption('--check', 'say it; "start" and "migrate" do it')
    .option('--ingest <url>', 'address of an ingest process; separate several by commas', collectStrings)
    .option('--pipeline <url>', 'address of a pipeline process; separate several by commas', collectStrings)
    .option('--api <url>', 'address of an API process; separate several by commas', collectStrings)
    .option(...JSON_OPTION)
    .action(async ({ check, json, ...given }: UpgradeOptions) => {
      const [sql, clickhouse, nats] = await Promise.all([context.postgres(), context.clickhouse(), context.nats()])
      const plan = await checkUpgrade({
        sql, clickhouse, nats, tiers: await findTiers(context.env, given), streams: loadStreamLimits(context.env)
      })
      context.stdout.write(json === true ? `${JSON.stringify(plan, null, 2)}\n` : drawPlan(plan))
      if (hasWork(plan)) context.exitCode = UPGRADE_WAITS
    })
}

function hasWork (plan: UpgradePlan): boolean {
  const { processes, migrations, streams, filesByHand, oldNatsServers, databaseVersion } = plan
  return migrations.length + streams.length + oldNatsServers.length > 0 || processes.some(({ isOlder }) => isOlder) ||
    // Without a record it is unknown whether they were applied.
    (databaseVersion !== null && filesByHand.length > 0)
}

function drawPlan (plan: UpgradePlan): string {
  const { version, databaseVersion, processes, migrations, streams, filesByHand, oldNatsServers } = plan
  const older = processes.filter(({ isOlder }) => isOlder)
  return [
    `this program     Millrace ${version}`,
    `databases        ${databaseVersion === null ? 'migrated by a version that did not record itself' : `migrated by Millrace ${databaseVersion}`}`,
    ...list('processes', processes.map(({ tier, version, url, isOlder }) => `${tier} ${version} at ${url}${isOlder ? ', to be replaced' : ''}`), 'none answers'),
    ...list('migrations', migrations.map(({ name, work, tables }) => `${name}: ${describeWork(work, tables)}`), 'none waits'),
    ...list('streams', streams.map(({ stream, field, from, to }) => field === undefined
      ? `${stream} is created`
      : `${stream}: ${field} ${JSON.stringify(from)} becomes ${JSON.stringify(to)}`), 'stay as they are'),
    ...list('nats-servers', oldNatsServers.map(({ server, version }) =>
      `${version || 'unknown version'} at ${server}: first replace it by ${OLDEST_NATS_SERVER} or newer, or set MILLRACE_OLD_NATS_SERVER=accept (docs/reference/guarantees.md)`), 'new enough'),
    ...list('by hand', filesByHand.map((file) => `${file}: ${howToApply(file)}`), 'nothing'),
    '',
    hasWork(plan)
      ? `Next: a backup, "millrace migrate"${filesByHand.length > 0 ? ', what is by hand' : ''}, then replace the processes: pipeline, api, ingest.${older.length > 0 ? ` ${older.length} of an older version still run.` : ''}`
      : 'Nothing is to be done.',
    ''
  ].join('\n')
}

function list (title: string, lines: readonly string[], none: string): string[] {
  const shown = lines.length === 0 ? [none] : lines
  return shown.map((line, index) => `${(index === 0 ? title : '').padEnd(17)}${line}`)
}

function describeWork (work: 'rows' | 'declaration', tables: readonly { table: string, rows: number }[]): string {
  const named = tables.map(({ table, rows }) => `${table} (${Math.round(rows).toLocaleString('en')} rows)`).join(', ')
  if (work === 'declaration' || tables.length === 0) return named === '' ? 'something new' : `declarations only, of ${named}`
  return `reads or rewrites rows of ${named}`
}
