import { createTakeCookieless } from '../../ingest/normalise/cookieless.ts'
import { DescribedNames } from '../../ingest/normalise/described-names.ts'
import { createEnrich } from '../../ingest/normalise/enrich.ts'
import { createNormaliseEvent } from '../../ingest/normalise/normalise-event.ts'
import { createPropertyReader } from '../../ingest/normalise/read-properties.ts'

/** Whatever a test sends is described. */
export const NO_LIMITS = { events: Infinity, properties: Infinity, pairs: Infinity }

export interface PlainNormaliserOptions {
  /** Tells the time, in milliseconds since 1970. */
  now?: () => number
  maxEventBytes?: number
}

/**
 * Normalises events as ingest does where nothing is enriched: nobody is taken for a bot, no address has a country, and
 * no visitor without a cookie is known.
 */
export function createPlainNormaliser (
  { now = Date.now, maxEventBytes = 1e6 }: PlainNormaliserOptions = {}
): ReturnType<typeof createNormaliseEvent> {
  return createNormaliseEvent({
    readProperties: createPropertyReader(now, new DescribedNames(NO_LIMITS, { now })),
    maxEventBytes: () => maxEventBytes,
    enrich: createEnrich({ isBot: () => false, locate: null }),
    takeCookieless: createTakeCookieless(() => new Map())
  })
}
