import { isbot } from 'isbot'
import { rememberRecent } from '../../platform/recent-answers.ts'

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
