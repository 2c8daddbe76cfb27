import type { Command } from 'commander'
import { CHECKED_LOGINS, checkClickHouse, type Finding, variableOf } from '../check-clickhouse.ts'
import { type CliContext, findAddress } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'
import { JSON_OPTION, type Output } from '../terminal-output.ts'

/** `millrace check clickhouse`: whether a ClickHouse of one's own can be trusted with events. */
export function addCheckCommands (program: Command, context: CliContext): void {
  const check = program.command('check').description('look at servers of your own before they are trusted, and after each change')

  check.command('clickhouse')
    .description('look at ClickHouse with an administrator\'s login (CLICKHOUSE_URL, MILLRACE_CLICKHOUSE_CLUSTER): nodes, replicas, tokens,\n' +
      'logins. Inserts into a scratch database only. Exits with 1 when something is wrong.\n' +
      `Tries the logins whose password is set: ${CHECKED_LOGINS.map(variableOf).join(', ')}`)
    .option('--node <url>', 'address of a further node with the same login; separate several by commas', collectStrings)
    .option(...JSON_OPTION)
    .action(async ({ node = [], json }: Output & { node?: string[] }) => {
      const passwords = new Map(CHECKED_LOGINS.flatMap((login) => {
        const password = context.env[variableOf(login)] ?? ''
        return password === '' ? [] : [[login, password] as const]
      }))
      const findings = await checkClickHouse({
        url: await findAddress(context.env, 'CLICKHOUSE_URL'), client: await context.clickhouse(), cluster: context.cluster(), nodes: node, passwords
      })
      context.stdout.write(json === true ? `${JSON.stringify(findings, null, 2)}\n` : findings.map(draw).join(''))
      if (findings.some(({ level }) => level === 'wrong')) context.exitCode = 1
    })
}

function draw ({ level, subject, text }: Finding): string {
  return `${level.padEnd(6)}${subject.padEnd(12)}${text}\n`
}
