import { createHmac } from 'node:crypto'
import { parse } from 'tldts-icann'
import type { CookielessSalts } from './cookieless-salts.ts'
import type { RequestContext } from '../event.ts'

type Properties = Record<string, unknown>

/** What posthog-js in `cookieless_mode` sends as the distinct id of everybody; the server tells visitors apart. */
export const COOKIELESS_ID = '$posthog_cookieless'

export interface CookielessEvent {
  distinctId: string
  properties: Properties
  /** What was missing to tell the visitor from others; absent when nothing was. */
  missing?: 'address' | 'user agent' | 'salt of the day'
}

export type TakeCookieless = (event: CookielessEvent, time: number, context: RequestContext) => CookielessEvent

/** Whether the event comes from a page that keeps nothing in the browser. */
export function isCookieless (distinctId: string, properties: Properties): boolean {
  return distinctId === COOKIELESS_ID || properties.$cookieless_mode === true
}

/** Characters of `$cookieless_extra` at most, as of the reference. */
const MAX_EXTRA_LENGTH = 100

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

/** Of UTC, in minutes, as JavaScript counts them: from Kiribati to Baker Island. */
const EARLIEST_OFFSET = -14 * 60
const LATEST_OFFSET = 12 * 60

/**
 * Gives a visitor without cookies an id for the day: `cookieless_` and 128 bits of HMAC-SHA-256, under the random salt
 * of the day in the visitor's time zone, over project, address, site of the page and user agent, and what the page
 * adds as `$cookieless_extra`. When the salt is destroyed, 72 h after its day began, nobody can find out any more whose
 * id it was.
 *
 * Address, user agent and additional input are not stored. The site, as far as a cookie would reach, separates the
 * visitors of one project. An event with its own id keeps it. An `$identify` names today's visitor as the one that the
 * user was.
 *
 * Without the salt (the event is too old, or Postgres was never there), the address or the user agent, the event is
 * stored under `$posthog_cookieless`, as it was sent: such visitors are indistinguishable. It is an ingestion warning.
 */
export function createTakeCookieless (salts: () => CookielessSalts): TakeCookieless {
  return function takeCookieless ({ distinctId, properties }, time, context) {
    const { $ip: sentAddress, $raw_user_agent: sentUserAgent, $cookieless_extra: sentExtra, ...stored } = properties
    const isAnonymous = distinctId === COOKIELESS_ID
    if (!isAnonymous && stored.$anon_distinct_id !== COOKIELESS_ID) return { distinctId, properties: stored }

    const salt = salts().get(localDayOf(time, properties.$timezone_offset))
    // A server that passes events on for its visitors says whose they are.
    const address = textOr(sentAddress, context.visitor.address)
    const userAgent = textOr(sentUserAgent, context.visitor.userAgent)
    if (salt === undefined || address === '' || userAgent === '') {
      // Nobody may be merged with all visitors of a project.
      const { $anon_distinct_id: anonymousId, ...others } = stored
      const missing = address === '' ? 'address' : userAgent === '' ? 'user agent' : 'salt of the day'
      return { distinctId, properties: anonymousId === COOKIELESS_ID ? others : stored, missing }
    }
    const parts = [String(context.project.id), address, siteOf(textOr(properties.$host, '')), userAgent]
    const extra = textOr(sentExtra, '').slice(0, MAX_EXTRA_LENGTH)
    if (extra !== '') parts.push(extra)
    const visitor = `cookieless_${createHmac('sha256', salt).update(JSON.stringify(parts)).digest('base64url').slice(0, 22)}`
    return {
      distinctId: isAnonymous ? visitor : distinctId,
      properties: stored.$anon_distinct_id === COOKIELESS_ID ? { ...stored, $anon_distinct_id: visitor } : stored
    }
  }
}

/** The registrable domain of a host, so with and without `www` and on any port the same; an address is itself. */
function siteOf (host: string): string {
  const { domain, hostname } = parse(host)
  return domain ?? hostname ?? host
}

/** @param offset  Minutes by which the visitor's time is behind UTC, as `getTimezoneOffset` of JavaScript says. */
function localDayOf (time: number, offset: unknown): number {
  const minutes = typeof offset === 'number' && offset >= EARLIEST_OFFSET && offset <= LATEST_OFFSET ? offset : 0
  return Math.floor((time - minutes * MINUTE_MS) / DAY_MS)
}

function textOr (value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise
}
