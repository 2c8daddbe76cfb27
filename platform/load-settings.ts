import { isIP } from 'node:net'
import { Ajv, type ErrorObject } from 'ajv'
import { SettingsError } from './errors.ts'
import { settings, type SettingName, type SettingValues } from './settings.ts'

/** Values of these are never repeated in an error message. */
const SECRET_NAME = /PASSWORD|KEY|URL/

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
    if (text !== undefined && text !== '') given[name] = text
  }

  const problems = findUnknownNames(env)
  const ajv = new Ajv({ allErrors: true, coerceTypes: true, useDefaults: true })
  ajv.addFormat('addresses', isAddressList)
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

function pickSchema (name: SettingName): [string, object] {
  return [name, settings[name]]
}

function findUnknownNames (env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('MILLRACE_') && !name.startsWith('MILLRACE_TEST_') && !(name in settings))
    .map((name) => `${name} is not a setting of Millrace; see docs/settings.md`)
}

/** Names of ranges that the reader of forwarded headers knows (`proxy-addr`). */
const NAMED_RANGES = new Set(['loopback', 'linklocal', 'uniquelocal'])

function isAddressList (text: string): boolean {
  return text === '' || text.split(',').every((entry) => {
    const [address = '', bits, ...rest] = entry.trim().split('/')
    if (bits === undefined && NAMED_RANGES.has(address)) return true
    const maxBits = isIP(address) === 4 ? 32 : 128
    return isIP(address) !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits))
  })
}

function describeRule ({ keyword, message }: ErrorObject): string {
  if (keyword === 'format') return `must be addresses or ranges, comma separated, such as 10.0.0.0/8, ::1 or ${[...NAMED_RANGES].join(', ')}`
  return message ?? 'is not valid'
}

function describeAllowed (params: Record<string, unknown>): string {
  return Array.isArray(params.allowedValues) ? ` (${params.allowedValues.join(', ')})` : ''
}
