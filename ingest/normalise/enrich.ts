import { isbot } from 'isbot'
import { type LocateAddress, onlyCountry, type Place } from '../../engines/enrichment/geoip.ts'
import { rememberRecent } from '../../engines/enrichment/recent-answers.ts'
import { senderDevice } from '../../engines/enrichment/sender-device.ts'
import type { RequestContext } from '../event.ts'

type Properties = Readonly<Record<string, unknown>>

/** Facts about the user beyond the event itself. */
export interface Enrichment {
  /** The user agent says that it is a program. */
  isBot: boolean
  /** Properties to store with the event; null: the place is unknown, or not to be looked up. */
  place: Place | null
}

const BOT: Readonly<Enrichment> = { isBot: true, place: null }
const HUMAN: Readonly<Enrichment> = { isBot: false, place: null }

export interface EnrichDeps {
  isBot: IsBot
  /** Null: there is no file of places, and no address is asked about. */
  locate: LocateAddress | null
}

/** @param properties  As they were sent, with the address and the user agent that are not stored later. */
export type Enrich = (properties: Properties, isCookieless: boolean, context: RequestContext) => Readonly<Enrichment>

/**
 * Tells bots and places from user agent and address: those that the event names, or those of the request when the
 * device of the user sent it. It runs before address and user agent are dropped; where they are not to be stored
 * (projects that anonymise addresses, visitors without cookies), no more than the country is kept.
 *
 * `$geoip_disable` turns the place off, and so does an event that brings its own.
 */
export function createEnrich ({ isBot, locate }: EnrichDeps): Enrich {
  return function enrich (properties, isCookieless, { visitor, project, historical }) {
    // An import comes from a script, whichever SDK recorded the events.
    const device = historical ? 'other' : senderDevice(properties, visitor.userAgent)
    const userAgent = sentUserAgent(properties) ?? (device === 'browser' ? visitor.userAgent : '')
    const known = isBot(userAgent) ? BOT : HUMAN
    if (locate === null) return known
    const { $ip: sentAddress, $geoip_disable: isDisabled, $geoip_country_code: sentCountry } = properties
    if (isDisabled === true || sentCountry !== undefined) return known
    const address = typeof sentAddress === 'string' ? sentAddress : device === 'other' ? '' : visitor.address
    const place = address === '' ? null : locate(address)
    if (place === null) return known
    return { ...known, place: isCookieless || project.anonymizeIps ? onlyCountry(place) : place }
  }
}

/** Any SDK may say which browser the user has. Read by name, as a loop over the names takes half of all of this. */
function sentUserAgent (
  { $raw_user_agent: first, $user_agent: second, $useragent: third }: Properties
): string | undefined {
  return textOf(first) ?? textOf(second) ?? textOf(third)
}

function textOf (value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Longer user agents are judged by their beginning: the time of the pattern grows with the text. */
const MAX_LENGTH = 500

/** User agents remembered twice over: about a megabyte. A few of them make nearly all events. */
const REMEMBERED = 1000

/**
 * Tells automated browsers (crawlers, previews, monitors) by what they say they are, with the list of the package
 * isbot.
 *
 * @param userAgent  Empty when it is unknown: then it is no bot.
 */
export type IsBot = (userAgent: string) => boolean

export function createIsBot (): IsBot {
  const ask = rememberRecent((userAgent) => isbot(userAgent.slice(0, MAX_LENGTH)), {
    size: REMEMBERED, longestKey: MAX_LENGTH
  })
  return (userAgent) => userAgent !== '' && ask(userAgent)
}
