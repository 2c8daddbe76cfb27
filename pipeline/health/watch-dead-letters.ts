import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { NEARLY_FULL, readDeadLetterFill, type DeadLetterFill } from '../../platform/dead-letters/read-dead-letters.ts'
import { type Logger } from '../../platform/logger.ts'
import { type Metrics } from '../../platform/metrics.ts'

/** How often the stream of dead letters is looked at, in milliseconds. */
const POLL_INTERVAL_MS = 5000

/** While it is nearly full the log says so this often, in milliseconds. */
const WARN_MS = 60_000

/** What is known of the dead letters, and with it whether NATS answers. */
export interface DeadLetterWatch {
  /** null until the first answer, and while NATS does not answer. */
  fill: () => DeadLetterFill | null
  stop: () => void
}

/**
 * Watches how full the dead-letter stream is: once it is full, partitions with something to dead-lettered stand still.
 */
export function watchDeadLetters (deps: {
  connection: NatsConnection, metrics: Metrics, logger: Logger
}): DeadLetterWatch {
  let fill: DeadLetterFill | null = null
  let warnedAt = -Infinity
  const { gaugeFrom } = deps.metrics
  gaugeFrom('dead_letters', 'Letters in the dead-letter stream; NaN while NATS does not answer.', () => fill?.letters ?? Number.NaN)
  gaugeFrom('dead_letters_fill_ratio', 'How full the dead-letter stream is, 0 to 1; NaN while NATS does not answer.', () => fill?.ratio ?? Number.NaN)

  async function look (): Promise<void> {
    try {
      fill = await readDeadLetterFill(deps.connection)
    } catch {
      // NATS is unavailable, which the connection logs itself.
      fill = null
    }
    if (fill !== null && fill.ratio >= NEARLY_FULL && performance.now() - warnedAt > WARN_MS) {
      warnedAt = performance.now()
      deps.logger.warn({ ...fill }, 'the dead-letter stream is nearly full: replay or purge letters')
    }
  }

  void look()
  const timer = setInterval(() => { void look() }, POLL_INTERVAL_MS)
  return { fill: () => fill, stop: () => clearInterval(timer) }
}
