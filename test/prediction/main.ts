/**
 * Compares what the looks back of schemas and rules predict with what ingest does, on random events:
 *
 *     npm run check:prediction -- [--events 1000000] [--schemas 500] [--rules 50] [--seed 1] [--tamper]
 *
 * Ingest decides about each event by its schema, by each rule alone, and by all rules and then the schema. The events
 * are stored without any schema or rule, and as rules leave them; then each schema and each rule looks back over what
 * is stored. Verdicts are compared one by one, and the counts of each schema, by property and by SDK, and of each rule.
 *
 * Exits with 0: everything is equal; 1: something differs, which it prints with the seed, the schema or rule, and the
 * event; 2: it could not run. `--tamper` changes one stored event, which then has to end with 1.
 */
import { Command } from 'commander'
import { readCount } from '../../cli/read-arguments.ts'
import { runCheck } from '../support/run-check.ts'
import type { TestContext } from '../support/test-context.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { checkPrediction } from './check-prediction.ts'

const options = new Command('npm run check:prediction --')
  .description('Compares what the looks back of schemas and rules predict with what ingest does, on random events.')
  .option('--events <number>', 'random events', readCount, 1_000_000)
  .option('--schemas <number>', 'random schemas, one for each name of an event', readCount, 500)
  .option('--rules <number>', 'random rules', readCount, 50)
  .option('--seed <number>', 'repeats an earlier run (default: another each time)', readCount)
  .option('--tamper', 'change one stored event: has to end with 1')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
  .opts<{ events: number, schemas: number, rules: number, seed?: number, tamper?: true }>()

await runCheck(run)

async function run (t: TestContext): Promise<number> {
  const { events, schemas, rules, seed = Date.now() % 1_000_000 } = options
  const startedAt = performance.now()
  const say = (line: string): void => {
    process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(0).padStart(5)} s  ${line}\n`)
  }
  say(`seed ${seed}, ${events} events, ${schemas} schemas, ${rules} rules`)
  const clickhouse = await createTestClickHouse(t)
  const { counts, compared, differences } = await checkPrediction(clickhouse, {
    events, schemas, rules, seed, tamper: options.tamper === true, onProgress: say
  })
  for (const difference of differences) process.stdout.write(`DIFFERENCE: ${difference}\n`)
  process.stdout.write(`${events} events, ${schemas} schemas, ${rules} rules, seed ${seed}; ${compared} looks back\n`)
  process.stdout.write(`by schemas: ${counts.met} met, ${counts.observe} observed, ${counts.quarantine} quarantined, ${counts.reject} rejected\n`)
  process.stdout.write(`by rules: ${counts.dropped} dropped, ${counts.sampled} sampled out, ${counts.changed} changed\n`)
  process.stdout.write(differences.length === 0 ? 'equal: prediction is enforcement\n' : `${differences.length} DIFFERENCES\n`)
  return differences.length === 0 ? 0 : 1
}
