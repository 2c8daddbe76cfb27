import { type StreamLink } from '../publish/stream-link.ts'
import { drainSpool } from './drain-spool.ts'
import { adoptOrphanedSpools, type OpenSpoolsOptions } from './open-spools.ts'
import { type Spool } from './spool.ts'

/** How often to look for spools of processes that are gone. */
const LOOK_EVERY_MS = 10_000

/** Publishes, in the background, what processes left that no longer run. */
export function adoptSpools (options: OpenSpoolsOptions & { link: StreamLink }): { stop (): Promise<void> } {
  const { link, logger } = options
  const stopped = new AbortController()
  let looking: Promise<void> = look()
  const timer = setInterval(() => { looking = looking.then(look) }, LOOK_EVERY_MS)
  timer.unref()

  return {
    async stop () {
      clearInterval(timer)
      stopped.abort()
      await looking
    }
  }

  async function look (): Promise<void> {
    if (stopped.signal.aborted || !link.isUp()) return
    try {
      for (const spool of await adoptOrphanedSpools(options)) await drain(spool)
    } catch (err) {
      logger.error({ err }, 'orphaned spools could not be taken over')
    }
  }

  async function drain (spool: Spool): Promise<void> {
    const publish = link.publish
    await drainSpool({ spool, publish, onProgress: () => {}, logger, signal: stopped.signal })
    await spool.close()
  }
}
