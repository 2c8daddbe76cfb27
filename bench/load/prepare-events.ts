import { createRandom, pickOne } from '../../test/support/random.ts'

/**
 * The event of the benchmarks: about 770 bytes of JSON with 22 properties, shaped like a page view of a web shop.
 * Seeded, so that every run sends the same events but for their uuids and times.
 */

const BROWSERS = ['Chrome', 'Safari', 'Firefox', 'Mobile Safari', 'Edge']
const SYSTEMS = ['Mac OS X', 'Windows', 'iOS', 'Android', 'Linux']
const SOURCES = ['newsletter', 'google', 'partner', 'direct', 'podcast']
const SECTIONS = ['shoes', 'shirts', 'books', 'garden', 'kitchen', 'sale']

/** How many different people send. */
const PEOPLE = 10_000

export interface EventOptions {
  /** How many different event names occur. */
  names?: number
  /** How old they are at least, in milliseconds; up to a seventh more. */
  ageMs?: number
}

/** Makes the events of one benchmark, each with a fresh UUIDv7 as SDKs make them. */
export function createEventSource (seed: number, { names = 10, ageMs = 0 }: EventOptions = {}): () => object {
  const random = createRandom(seed)
  const pick = <T>(list: readonly T[]): T => pickOne(list, random)
  const hex = (digits: number): string =>
    Math.floor(random() * 16 ** digits).toString(16).padStart(digits, '0')
  return () => {
    const now = Date.now() - (ageMs === 0 ? 0 : Math.floor(ageMs * (1 + random() / 7)))
    const time = now.toString(16).padStart(12, '0')
    const person = Math.floor(random() * PEOPLE)
    const section = pick(SECTIONS)
    const product = Math.floor(random() * 5000)
    return {
      event: names === 10 && random() < 0.5 ? '$pageview' : `event ${Math.floor(random() * names)}`,
      distinct_id: `person-${person}-0f3c9a`,
      uuid: `${time.slice(0, 8)}-${time.slice(8)}-7${hex(3)}-${'89ab'[Math.floor(random() * 4)]}${hex(3)}-${hex(12)}`,
      timestamp: new Date(now).toISOString(),
      properties: {
        $session_id: `018f6f2e-7c1a-7000-8000-${(person * 7).toString(16).padStart(12, '0')}`,
        $window_id: `018f6f2e-7c1a-7000-9000-${(person * 11).toString(16).padStart(12, '0')}`,
        $current_url: `https://shop.example.com/${section}/product-${product}?utm_source=${pick(SOURCES)}`,
        $host: 'shop.example.com',
        $pathname: `/${section}/product-${product}`,
        $browser: pick(BROWSERS),
        $browser_version: 120 + Math.floor(random() * 10),
        $os: pick(SYSTEMS),
        $device_type: random() < 0.6 ? 'Desktop' : 'Mobile',
        $screen_width: 1280 + Math.floor(random() * 8) * 80,
        $screen_height: 720 + Math.floor(random() * 8) * 45,
        $referring_domain: 'www.example.org',
        $lib: 'web',
        $lib_version: '1.434.18',
        utm_source: pick(SOURCES),
        plan: random() < 0.2 ? 'pro' : 'free',
        amount: Math.floor(random() * 100_000) / 100,
        quantity: 1 + Math.floor(random() * 5),
        is_member: random() < 0.4,
        product_id: `sku-${product}`,
        category: section,
        cart_size: Math.floor(random() * 12)
      }
    }
  }
}
