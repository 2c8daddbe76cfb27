/**
 * Who talks to us: the browser of the user, an app on the user's device, or something else: a server, a script, or
 * unknown. The address of a browser or an app is the user's; only a browser says by its header what it is,
 * because apps send the name of their HTTP library.
 */
export type SenderDevice = 'browser' | 'app' | 'other'

/** By `$lib`, which is how apps begin their user agent, too. */
const DEVICES = new Map<string, SenderDevice>([
  ['web', 'browser'],
  ['js', 'browser'],
  ['posthog-js-lite', 'browser'],
  ['analytics.js', 'browser'],
  ['RudderLabs JavaScript SDK', 'browser'],
  ['posthog-ios', 'app'],
  ['posthog-android', 'app'],
  ['posthog-react-native', 'app'],
  ['posthog-flutter', 'app'],
  ['posthog-unity', 'app'],
  ['analytics-ios', 'app'],
  ['analytics-swift', 'app'],
  ['analytics-android', 'app'],
  ['analytics-kotlin', 'app'],
  ['analytics-react-native', 'app']
])

/**
 * Decides by `$lib`; without it by the user agent of the request: a browser's, or that of an SDK for apps. Unknown
 * senders count as servers, because its address would be wrong for all its users, while a missing one is only missing.
 */
export function senderDevice (
  { $lib, $is_server: isServer }: Readonly<Record<string, unknown>>, userAgent: string
): SenderDevice {
  if (isServer === true) return 'other'
  if (typeof $lib === 'string') return DEVICES.get($lib) ?? 'other'
  if (userAgent.startsWith('Mozilla/')) return 'browser'
  const end = userAgent.indexOf('/')
  return end === -1 ? 'other' : DEVICES.get(userAgent.slice(0, end)) ?? 'other'
}
