import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import type { Stack } from '../start-stack.ts'

/** Settings under which streams and spool are full soon. */
export const SMALL = {
  MILLRACE_STREAM_MAX_BYTES: '2000000', MILLRACE_DEAD_LETTER_MAX_BYTES: '1048576', MILLRACE_SPOOL_MAX_BYTES: '4000000'
}

/** A running stack that can be broken. */
export interface Broken {
  stack: Stack
  /** Sends captures of incompressible random bytes. */
  send: (event: string, options?: { times?: number, bytes?: number, distinctId?: string | null }) => Promise<void>
  /** Sends a signal to a part of the stack and to its children. */
  signal: (part: string, signal: NodeJS.Signals) => Promise<void>
  /** Changes figures of a scrape of a tier, which Prometheus reads as another target. */
  pretend: (figures: Readonly<Record<string, number>>) => void
}

/** A fault, and the alerts that it has to raise. */
export interface AlertFault {
  name: string
  alerts: readonly string[]
  begin: (broken: Broken) => Promise<void>
  end: (broken: Broken) => Promise<void>
  /** For how long it may take, in milliseconds. */
  timeoutMs: number
}

/** The uuid of the row that somebody adds by hand. */
const ADDED_ROW = '0193a5b2-7c1d-7e8f-9abc-def012345678'

const nothing = async (): Promise<void> => {}

/** Stops a process for most of the time, for `stoppedMs` at a time; ends when the fault does. */
function createStutter (part: string, alert: string, { stoppedMs = 1300, runMs = 100 } = {}): AlertFault {
  let stopping = new AbortController()
  let loop: Promise<void> = Promise.resolve()
  return {
    name: `${part} stands still for ${stoppedMs} ms at a time`,
    alerts: [alert],
    timeoutMs: 60_000,
    async begin ({ signal, send }) {
      stopping = new AbortController()
      const { signal: stopped } = stopping
      loop = (async () => {
        while (!stopped.aborted) {
          await signal(part, 'SIGSTOP')
          // Messages delivered while the pipeline is stopped are late.
          if (part === 'pipeline') await send('seen')
          await delay(stoppedMs)
          await signal(part, 'SIGCONT')
          await delay(runMs)
        }
      })()
    },
    async end () {
      stopping.abort()
      await loop
    }
  }
}

/** Every fault; together they raise every alert. In this order: what fills a stream comes after what it would hide. */
export const ALERT_FAULTS: readonly AlertFault[] = [
  // Below the 15 s after which the reader gives its consumer up, and long enough running for a scrape.
  createStutter('pipeline', 'MillraceDeliveryLate', { stoppedMs: 8000, runMs: 4000 }),
  {
    name: 'a backup fails',
    alerts: ['MillraceBackupFailed'],
    timeoutMs: 60_000,
    async begin ({ stack }) {
      await runCaptured(['backups', 'record', '--error', 'no room'], { DATABASE_URL: stack.databaseUrl })
    },
    end: async ({ stack }) => { await runCaptured(['backups', 'record', '--folder', 'of the test'], { DATABASE_URL: stack.databaseUrl }) }
  },
  {
    name: 'a target has an address that is not allowed',
    alerts: ['MillraceTargetFails'],
    timeoutMs: 60_000,
    async begin ({ stack }) {
      const access = { MILLRACE_DATA_DIR: stack.dataDir }
      await runCaptured(['request', 'POST', '/api/projects/1/targets', '--data', '{"name": "inside", "kind": "webhook", "url": "http://127.0.0.1:9/"}'], access)
      await runCaptured(['request', 'POST', '/api/projects/1/targets/1/test'], access)
    },
    end: async ({ stack }) => { await runCaptured(['request', 'DELETE', '/api/projects/1/targets/1'], { MILLRACE_DATA_DIR: stack.dataDir }) }
  },
  {
    name: 'clients send events without a distinct id',
    alerts: ['MillraceEventsDropped'],
    timeoutMs: 60_000,
    begin: async ({ send }) => { await send('nameless', { times: 20, distinctId: null }) },
    end: nothing
  },
  {
    name: 'a materialized view of a user fails',
    alerts: ['MillraceViewFails'],
    timeoutMs: 60_000,
    async begin ({ stack, send }) {
      await stack.clickhouse.command({
        query: "CREATE MATERIALIZED VIEW failing ENGINE = MergeTree ORDER BY n AS SELECT throwIf(distinct_id != '') AS n FROM events"
      })
      await send('seen')
    },
    end: async ({ stack }) => { await stack.clickhouse.command({ query: 'DROP VIEW failing SYNC' }) }
  },
  {
    name: 'ClickHouse refuses one event, the first since the start',
    alerts: ['MillraceDeadLetters', 'MillraceDeadLettersWait'],
    timeoutMs: 60_000,
    async begin ({ stack, send }) {
      await stack.clickhouse.command({ query: "ALTER TABLE events ADD CONSTRAINT broken CHECK event != 'broken'" })
      await send('broken')
    },
    end: nothing
  },
  {
    name: 'ClickHouse refuses events until the dead letters are nearly full',
    alerts: ['MillraceDeadLettersFill'],
    timeoutMs: 60_000,
    begin: async ({ send }) => { await send('broken', { times: 19, bytes: 50_000 }) },
    async end ({ stack }) {
      await stack.clickhouse.command({ query: 'ALTER TABLE events DROP CONSTRAINT broken' })
      // Else the next fault would find a stream that is full already.
      await runCaptured(['dead-letters', 'purge', '--yes'], { MILLRACE_DATA_DIR: stack.dataDir })
    }
  },
  {
    name: 'ClickHouse hangs',
    alerts: [
      'MillracePartitionStuck', 'MillracePartitionBehind', 'MillraceStreamFills', 'MillraceDefinitionsStale',
      'MillraceWatermarkBehind', 'MillracePersonsCopiesBehind'
    ],
    timeoutMs: 200_000,
    async begin ({ signal, send }) {
      await signal('clickhouse', 'SIGSTOP')
      await send('seen', { times: 19, bytes: 90_000 })
    },
    end: async ({ signal }) => { await signal('clickhouse', 'SIGCONT') }
  },
  {
    name: 'and answers again: what was inserted meanwhile took long',
    alerts: ['MillraceInsertsSlow'],
    timeoutMs: 60_000,
    begin: nothing,
    end: nothing
  },
  {
    name: 'nats-server hangs until the spool is full',
    alerts: ['MillraceSpooling', 'MillraceSpoolFills', 'MillraceEventsRefused'],
    timeoutMs: 90_000,
    async begin ({ signal, send }) {
      await signal('nats-server', 'SIGSTOP')
      await send('seen', { times: 60, bytes: 90_000 })
    },
    end: async ({ signal }) => { await signal('nats-server', 'SIGCONT') }
  },
  {
    name: 'Postgres hangs',
    alerts: ['MillraceFlagsStale'],
    timeoutMs: 200_000,
    begin: async ({ signal }) => { await signal('postgres', 'SIGSTOP') },
    end: async ({ signal }) => { await signal('postgres', 'SIGCONT') }
  },
  {
    name: 'a table of Postgres is gone',
    alerts: ['MillraceApiErrors'],
    timeoutMs: 60_000,
    async begin ({ stack }) {
      await stack.sql`ALTER TABLE experiments RENAME TO experiments_away`
      for (let i = 0; i < 60; i++) {
        await fetch(`${stack.url}/api/projects/1/experiments/`, { headers: { authorization: `Bearer ${stack.personalApiKey}` } })
      }
    },
    end: async ({ stack }) => { await stack.sql`ALTER TABLE experiments_away RENAME TO experiments` }
  },
  createStutter('ingest', 'MillraceIngestBlocked'),
  createStutter('pipeline', 'MillracePipelineBlocked'),
  createStutter('api', 'MillraceApiBlocked'),
  ...(['ingest', 'pipeline', 'api'] as const).map((tier): AlertFault => ({
    name: `no ${tier} process answers`,
    alerts: [`Millrace${tier[0]!.toUpperCase()}${tier.slice(1)}Absent`],
    timeoutMs: 60_000,
    begin: async ({ signal }) => { await signal(tier, 'SIGSTOP') },
    end: async ({ signal }) => { await signal(tier, 'SIGCONT') }
  })),
  {
    name: 'somebody adds a row to events',
    alerts: ['MillraceLedgerDrift'],
    timeoutMs: 120_000,
    begin: async ({ stack }) => {
      await stack.clickhouse.command({
        query: `INSERT INTO events SELECT * REPLACE(toUUID('${ADDED_ROW}') AS uuid) FROM events ORDER BY received_at DESC LIMIT 1`
      })
    },
    end: async ({ stack }) => { await stack.clickhouse.command({ query: `DELETE FROM events WHERE uuid = '${ADDED_ROW}'` }) }
  },
  {
    name: 'a project exceeds its quota of the month',
    alerts: ['MillraceQuotaNearlyUsed', 'MillraceQuotaExceeded'],
    timeoutMs: 120_000,
    begin: async ({ stack, send }) => {
      await runCaptured(['request', 'PATCH', '/api/projects/1/quota/', '--data', '{"events_per_month":1}'], { MILLRACE_DATA_DIR: stack.dataDir })
      // Ingest learns the usage within half a minute.
      for (let i = 0; i < 40; i++) {
        await send('seen')
        await delay(1000)
      }
    },
    end: async ({ stack }) => {
      await runCaptured(['request', 'DELETE', '/api/projects/1/quota/'], { MILLRACE_DATA_DIR: stack.dataDir })
    }
  },
  {
    name: 'a real scrape of the pipeline with other figures: a full disk, broken parts, missing messages, no check of the books, no backup, one with a warning, a late export',
    alerts: ['MillraceDiskFills', 'MillracePartsBroken', 'MillraceMessagesMissing', 'MillraceLedgerUnchecked', 'MillraceBackupOld', 'MillraceBackupWarned', 'MillraceExportLate'],
    timeoutMs: 60_000,
    begin: async ({ stack, pretend }) => {
      const body = JSON.stringify({ name: 'alerts', schedule: 'hour', target: { kind: 'folder' } })
      await runCaptured(['request', 'POST', '/api/projects/1/exports/', '--data', body], { MILLRACE_DATA_DIR: stack.dataDir })
      pretend({
        millrace_pipeline_clickhouse_disk_free_bytes: 1,
        millrace_pipeline_clickhouse_broken_parts: 1,
        millrace_pipeline_stream_missing_messages: 1,
        millrace_ledger_check_age_seconds: 1000,
        millrace_pipeline_backup_age_seconds: 200_000,
        millrace_pipeline_backup_warned: 1,
        millrace_pipeline_backup_interval_seconds: 86_400,
        millrace_pipeline_export_lag_seconds: 7200
      })
    },
    end: async ({ pretend }) => { pretend({}) }
  },
  {
    name: 'a second ingest process, a real scrape with another figure, enforces other rules',
    alerts: ['MillraceIngestDiffers'],
    timeoutMs: 60_000,
    begin: async ({ pretend }) => { pretend({ millrace_ingest_rules_fingerprint: 281_474_976_710_655 }) },
    end: async ({ pretend }) => { pretend({}) }
  }
]

/** The process of a part of the stack and its children: Postgres serves each connection by one. */
export async function findPids (dataDir: string, part: string): Promise<number[]> {
  const processes = JSON.parse(await readFile(path.join(dataDir, 'processes.json'), 'utf8')) as { name: string, pid: number }[]
  const { pid } = processes.find(({ name }) => name === part) ?? {}
  if (pid === undefined) throw new Error(`the stack has no part ${part}: ${processes.map(({ name }) => name).join(', ')}`)
  const parents = await Promise.all((await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(async (name) => {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    return [Number(name), Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0])] as const
  }))
  return [pid, ...parents.filter(([, parent]) => parent === pid).map(([child]) => child)]
}
