/**
 * Proves that the simulation finds bugs: plants those that the project once had, and mechanisms left out, one by one.
 *
 *     node test/simulation/planted-bugs.ts [--seeds 10000] [--from 1] [--bug <number>]
 *
 * Prints after how many seeds each was found; exits with 1 when more than one was not.
 */
import { spawnSync } from 'node:child_process'
import { registerHooks } from 'node:module'
import path from 'node:path'
import { parseArgs } from 'node:util'

interface PlantedBug {
  /** The commit that mended it; empty: nobody ever made it. */
  commit: string
  what: string
  file: string
  /** What stands there, and what stands there with the bug. */
  from: string
  to: string
}

const BUGS: readonly PlantedBug[] = [
  {
    commit: 'c6d289c3',
    what: 'a claim that is stored after the release leaves a partition to a process that does not write it',
    file: 'pipeline/stream/partition-lease.ts',
    from: "await records.replace(partition, isOfOther || record === null ? record : { ...record, owner: '' }, revision)",
    to: "if (record?.owner === owner) await records.replace(partition, { ...record, owner: '' }, revision)"
  },
  {
    commit: 'b5213352',
    what: 'a partition is released with one try',
    file: 'pipeline/stream/partition-lease.ts',
    from: 'if (err instanceof FencedError) return',
    to: 'return'
  },
  {
    commit: '6c86432c',
    what: 'a process forgets a partition of another owner after its own claim',
    file: 'pipeline/stream/partition-lease.ts',
    from: '  if (before?.owner !== owner) options.onTakeOver()\n  const renewedAt = performance.now()\n  const revision = await records.replace(partition, record, found.revision)\n',
    to: '  const renewedAt = performance.now()\n  const revision = await records.replace(partition, record, found.revision)\n  if (before?.owner !== owner) options.onTakeOver()\n'
  },
  {
    commit: '1dccc5ea',
    what: 'a memory of duplicates from before another owner is taken for complete',
    file: 'pipeline/events/events-partition.ts',
    from: 'onTakeOver: () => deps.duplicateFilters.close(partition)',
    to: 'onTakeOver: () => {}'
  },
  {
    commit: '7f0efd14',
    what: 'the books of a new stream begin after its first events',
    file: 'pipeline/stream/partition-lease.ts',
    from: '(record === null && isFresh && {',
    to: '(record === null && isFresh && Date.now() < 0 && {'
  },
  {
    commit: 'e97c0f4d',
    what: 'a process takes back what another one wrote of the watermark',
    file: 'pipeline/accounting/keep-watermark.ts',
    from: "greatest(fromUnixTimestamp64Milli({through: Int64}, 'UTC'), (SELECT max(complete_through) FROM watermark_reached))",
    to: "fromUnixTimestamp64Milli({through: Int64}, 'UTC')"
  },
  {
    commit: 'fbff0c8c',
    what: 'a row that was refused just before a migration ended is dead-lettered',
    file: 'pipeline/events/refused-row-search.ts',
    from: "const isFirst = classifyClickHouseError(error).action === 'mismatch' && this.#suspect !== row",
    to: 'const isFirst = false'
  },
  {
    commit: '529050d7',
    what: 'rows of an insert of unknown outcome are booked as duplicates',
    file: 'pipeline/events/duplicates/duplicate-filter.ts',
    from: 'if (deduplicated.length === 0 || doubtful.length === 0) return deduplicated',
    to: 'if (doubtful.length >= 0) return deduplicated'
  },
  {
    commit: '529050d7',
    what: 'an insert of unknown outcome is forgotten with the session',
    file: 'pipeline/events/partition-progress.ts',
    from: '    this.#next = lease.record\n',
    to: '    this.#next = { ...lease.record, doubtful: [] }\n'
  },
  {
    commit: '31e75648',
    what: 'ingest takes events before NATS has its entry',
    file: 'ingest/publish/presence.ts',
    from: '  get isRegistered (): boolean {\n    return this.#isRegistered\n',
    to: '  get isRegistered (): boolean {\n    return true\n'
  },
  {
    commit: '',
    what: 'messages are acknowledged before their progress is recorded',
    file: 'pipeline/events/partition-progress.ts',
    from: '    await this.#lease.write(this.#next)\n    this.#reader.acknowledge(this.#acknowledged)\n',
    to: '    this.#reader.acknowledge(this.#acknowledged)\n    await this.#lease.write(this.#next)\n'
  },
  {
    commit: '',
    what: 'a batch range is inserted before it is recorded',
    file: 'pipeline/events/partition-session.ts',
    from: '    this.#progress.setRange(range)\n    await this.#progress.write()\n',
    to: '    await this.#progress.write()\n'
  },
  {
    commit: '',
    what: 'the spool answers before it is flushed',
    file: 'ingest/spool/segment-writer.ts',
    from: '    await file.datasync()\n    this.#offset = at\n',
    to: '    this.#offset = at\n'
  },
  {
    commit: '',
    what: 'persons: the fingerprints of a transaction that failed are remembered',
    file: 'pipeline/persons/apply-batch.ts',
    from: '    const fingerprints = fingerprintAccepted(updates, outcome.refused)\n',
    to: '    const fingerprints = fingerprintAccepted(updates, outcome.refused)\n    recent.add(fingerprints)\n'
  },
  {
    commit: '',
    what: 'persons: two processes that believe to own a partition do not lock it',
    file: 'pipeline/persons/persons-progress.ts',
    from: ' FOR UPDATE`',
    to: '`'
  },
  {
    commit: '',
    what: 'persons: a message is acknowledged before its transaction',
    file: 'pipeline/persons/persons-partition.ts',
    from: '  const batch = { partition,',
    to: '  reader.acknowledge(taken)\n  const batch = { partition,'
  },
  {
    commit: '',
    what: 'persons: copies leave the outbox before ClickHouse has them',
    file: 'platform/persons/persons-outbox.ts',
    from: 'const refused = await storeCopies(clickhouse, waiting)',
    to: 'const refused = new Map<number, string>()\n    void storeCopies(clickhouse, waiting).catch(() => {})'
  }
]

const VARIABLE = 'MILLRACE_PLANTED_BUG'
const ROOT = path.join(import.meta.dirname, '..', '..')
const planted = process.env[VARIABLE]

if (planted !== undefined) plant(BUGS[Number(planted)]!)
else plantAll()

/** Loads the file of a bug with it. */
function plant ({ file, from, to }: PlantedBug): void {
  registerHooks({
    load (url, context, next) {
      const loaded = next(url, context)
      if (url !== new URL(file, `file://${ROOT}/`).href) return loaded
      const source = String(loaded.source)
      if (!source.includes(from)) throw new Error(`${file} has no ${from}`)
      return { ...loaded, source: source.replace(from, () => to) }
    }
  })
}

function plantAll (): void {
  const { values: { seeds, from, bug } } = parseArgs({
    options: {
      seeds: { type: 'string', default: '10000' }, from: { type: 'string', default: '1' }, bug: { type: 'string' }
    }
  })
  let missed = 0
  for (const [number, { commit, what }] of BUGS.entries()) {
    if (bug !== undefined && bug !== String(number)) continue
    const { stdout, stderr } = spawnSync(process.execPath, [
      '--import', import.meta.filename, path.join(import.meta.dirname, 'main') + '.ts', '--once', '--seeds', seeds, '--from', from
    ], { env: { ...process.env, [VARIABLE]: String(number) }, encoding: 'utf8' })
    const [, seed, why] = /^seed (\d+): (.*)/m.exec(stdout) ?? /seed (\d+)()/.exec(stderr) ?? []
    if (seed === undefined) missed++
    const found = seed === undefined ? `not found in ${seeds} seeds ${stderr}` : `seed ${Number(seed) - Number(from) + 1}: ${why}`
    console.log(`${number} ${commit} ${what}\n  ${found}`)
  }
  process.exitCode = missed > 1 ? 1 : 0
}
