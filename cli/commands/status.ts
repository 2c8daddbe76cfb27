import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'
import { buildStatus, type Reading } from '../status/build-status.ts'
import { drawStatus } from '../status/draw-status.ts'
import { createReadStores, findTiers, readTier, type TierName, type TierUrls } from '../status/read-status.ts'

interface StatusOptions {
  json?: boolean
  once?: boolean
  ingest?: string[]
  pipeline?: string[]
  api?: string[]
}

const REFRESH_MS = 1000

/** Terminal codes: cursor to the top left, clear the screen. */
const CLEAR = '\u001b[H\u001b[J'

/** `millrace status`: throughput, backlogs and failures of all stages, live. */
export function addStatusCommands (program: Command, context: CliContext): void {
  program.command('status')
    .description('show throughput, backlogs and failures of all parts, refreshed each second')
    .option('--once', 'show it once; the default without a terminal')
    .option('--json', 'print it once as JSON')
    .option('--ingest <url>', 'address of an ingest process; separate several by commas', collectStrings)
    .option('--pipeline <url>', 'address of a pipeline process; separate several by commas', collectStrings)
    .option('--api <url>', 'address of an API process; separate several by commas', collectStrings)
    .action(async ({ json, once, ...given }: StatusOptions) => {
      const poll = createPoll(await findTiers(context.env, given), context)
      const isLive = json !== true && once !== true && (context.stdout as { isTTY?: boolean }).isTTY === true
      let before = await poll()
      for (;;) {
        await delay(REFRESH_MS)
        const now = await poll()
        const status = buildStatus(before, now)
        if (json === true) context.stdout.write(`${JSON.stringify(status, null, 2)}\n`)
        else context.stdout.write(`${isLive ? CLEAR : ''}${drawStatus(status)}`)
        if (!isLive) return
        before = now
      }
    })
}

function createPoll (urls: TierUrls, context: CliContext): () => Promise<Reading> {
  const readStores = createReadStores({
    // Not watched: the status shows a service that hangs, and goes on.
    nats: async () => await context.nats({ isWatched: false }),
    clickhouse: async () => await context.clickhouse({ isWatched: false }),
    postgres: async () => await context.postgres({ isWatched: false })
  })
  return async () => {
    const [stores, ...tiers] = await Promise.all([
      readStores(),
      ...(['ingest', 'pipeline', 'api'] as TierName[]).flatMap((tier) => urls[tier].map(async (url) => await readTier(tier, url)))
    ])
    return { time: new Date(context.now()), stores, tiers }
  }
}
