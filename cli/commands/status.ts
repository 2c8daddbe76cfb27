import { setTimeout as delay } from 'node:timers/promises'
import { type Command } from 'commander'
import { type CliContext } from '../cli-context.ts'
import { collectTexts } from '../read-arguments.ts'
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

/** Home, then clear what was there. */
const CLEAR = '\u001b[H\u001b[J'

/** `millrace status`: the whole life of an event, live. */
export function addStatusCommands (program: Command, context: CliContext): void {
  program.command('status')
    .description('show what flows, what waits and what is stuck, refreshed each second')
    .option('--once', 'show it once; so it is without a terminal')
    .option('--json', 'write it once as JSON')
    .option('--ingest <url>', 'an ingest process; several with commas', collectTexts)
    .option('--pipeline <url>', 'a pipeline process; several with commas', collectTexts)
    .option('--api <url>', 'an API process; several with commas', collectTexts)
    .action(async ({ json, once, ...given }: StatusOptions) => {
      const look = createLook(await findTiers(context.env, given), context)
      const isLive = json !== true && once !== true && (context.stdout as { isTTY?: boolean }).isTTY === true
      let before = await look()
      for (;;) {
        await delay(REFRESH_MS)
        const now = await look()
        const status = buildStatus(before, now)
        if (json === true) context.stdout.write(`${JSON.stringify(status, null, 2)}\n`)
        else context.stdout.write(`${isLive ? CLEAR : ''}${drawStatus(status)}`)
        if (!isLive) return
        before = now
      }
    })
}

function createLook (urls: TierUrls, context: CliContext): () => Promise<Reading> {
  const readStores = createReadStores({
    // One that hangs is what the status is about, no reason to end.
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
