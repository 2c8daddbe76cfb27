import { isIP } from 'node:net'
import { Ajv, type ErrorObject } from 'ajv'
import { SettingsError } from '../engines/errors.ts'
import { settings, type SettingName, type SettingValues } from './settings.ts'

/** Values of these are never repeated in an error message. */
const SECRET_NAME = /PASSWORD|SECRET|KEY|URL/

/**
 * Reads the named settings from an environment: converted to their types, defaults filled in, frozen.
 *
 * An empty variable counts as absent, as compose files like to pass them.
 *
 * @throws {SettingsError} listing every problem of the environment at once, an unknown `MILLRACE_` variable included,
 *   because that is most often a misspelt one.
 */
export function loadSettings<N extends SettingName> (env: NodeJS.ProcessEnv, names: readonly N[]): SettingValues<N> {
  const given: Record<string, unknown> = {}
  for (const name of names) {
    const text = env[name]
    if (text !== undefined && text !== '') given[name] = settings[name].type === 'integer' ? readInteger(text) : text
  }

  const problems = findUnknownNames(env)
  const ajv = new Ajv({ allErrors: true, useDefaults: true, verbose: true, validateSchema: false })
  for (const [name, { isValid }] of Object.entries(FORMATS)) ajv.addFormat(name, isValid)
  const validate = ajv.compile({ type: 'object', properties: Object.fromEntries(names.map(pickSchema)) })
  if (!validate(given)) {
    for (const error of validate.errors ?? []) {
      const name = error.instancePath.slice(1)
      const came = SECRET_NAME.test(name) ? '' : `, but is ${JSON.stringify(env[name])}`
      problems.push(`${name} ${describeRule(error)}${describeAllowed(error.params)}${came}`)
    }
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return Object.freeze(given) as SettingValues<N>
}

/** A larger number is not exact any more; a setting may have a maximum of its own. */
const LARGEST = { maximum: Number.MAX_SAFE_INTEGER }

function pickSchema (name: SettingName): [string, object] {
  return [name, settings[name].type === 'integer' ? { ...LARGEST, ...settings[name] } : settings[name]]
}

/** The text itself when it is not plain digits: `0x10`, `1e3`, `Infinity` and blanks are mistakes, never meant. */
function readInteger (text: string): number | string {
  return /^-?\d+$/.test(text) ? Number(text) : text
}

function findUnknownNames (env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('MILLRACE_') && !name.startsWith('MILLRACE_TEST_') && !(name in settings))
    .map((name) => `${name} is not a setting of Millrace; see docs/reference/settings.md`)
}

/** Names of ranges that the reader of forwarded headers knows (`proxy-addr`). */
const NAMED_RANGES = new Set(['loopback', 'linklocal', 'uniquelocal'])

/** The formats of `settings.ts`, each with what an error says about it. */
const FORMATS: Record<string, { isValid: (text: string) => boolean, rule: string }> = {
  addresses: {
    isValid: isAddressList,
    rule: `must be addresses or ranges, comma separated, such as 10.0.0.0/8, ::1 or ${[...NAMED_RANGES].join(', ')}`
  },
  'http-url': { isValid: (text) => text === '' || isUrl(text, ['http:', 'https:']), rule: 'must be a URL, http://host:port or https://host:port' },
  'http-urls': { isValid: (text) => isList(text, ['http:', 'https:']), rule: 'must be URLs, comma separated, each http://host:port or https://host:port' },
  'nats-urls': {
    // The scheme may be absent.
    isValid: (text) => isList(text.replaceAll(/(^|,)\s*(?!\s|[^,]*:\/\/)/g, '$1nats://'), ['nats:', 'tls:']),
    rule: 'must be URLs, comma separated, each nats://host:port or tls://host:port'
  },
  // Clients send keys in headers, queries and paths.
  key: { isValid: (text) => /^[\w.~-]*$/.test(text), rule: 'must be of letters, digits, "_", "-", "." and "~" only, without blanks' },
  path: { isValid: (text) => !/\p{Cc}|^\s|\s$/u.test(text), rule: 'must be a path without control characters and without blanks around it' },
  'smtp-url': { isValid: (text) => text === '' || isUrl(text, ['smtp:', 'smtps:']), rule: 'must be a URL, smtp://user:password@host:port or smtps://user:password@host:port' },
  'time-of-day': { isValid: (text) => /^(([01]\d|2[0-3]):[0-5]\d)?$/.test(text), rule: 'must be a time of day in UTC with four digits, such as 02:30' },
  'postgres-url': { isValid: (text) => isUrl(text, ['postgres:', 'postgresql:']), rule: 'must be a URL, postgres://user:password@host:port/database' }
}

const ENCODED = '; in a user and a password write %23 for #, %2F for /, %3F for ?, %25 for %'

function isUrl (text: string, schemes: readonly string[]): boolean {
  const url = URL.parse(text)
  if (url === null || !schemes.includes(url.protocol) || /\s/.test(text)) return false
  // Postgres alone has a default for the host, and may have it in a parameter.
  if (url.host === '' && !url.protocol.startsWith('postgres')) return false
  // `http://name:12#34@host` would be host `name`.
  return (url.username !== '' || url.password !== '' || !text.includes('@')) && isDecodable(url.username) && isDecodable(url.password)
}

function isList (text: string, schemes: readonly string[]): boolean {
  return text === '' || text.split(',').every((part) => isUrl(part.trim(), schemes))
}

function isDecodable (text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

function isAddressList (text: string): boolean {
  return text === '' || text.split(',').every((entry) => {
    const [address = '', bits, ...rest] = entry.trim().split('/')
    if (bits === undefined && NAMED_RANGES.has(address)) return true
    const maxBits = isIP(address) === 4 ? 32 : 128
    return isIP(address) !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits))
  })
}

function describeRule ({ keyword, message, params, data }: ErrorObject): string {
  if (keyword === 'type') return 'must be a whole number in digits, without a unit'
  if (keyword !== 'format') return message ?? 'is not valid'
  return `${FORMATS[String(params.format)]!.rule}${String(data).includes('@') ? ENCODED : ''}`
}

function describeAllowed (params: Record<string, unknown>): string {
  return Array.isArray(params.allowedValues) ? ` (${params.allowedValues.join(', ')})` : ''
}
