import { settings, type SettingName } from '../../platform/settings.ts'
import { array, object, type Value } from '../http/json-schema.ts'

export const settingsSchema = object({
  results: array(object({
    name: { type: 'string' },
    value: { type: 'string', description: 'Masked: of secrets nothing, of URLs everything but the password.' },
    source: { type: 'string', enum: ['environment', 'default'] },
    isSecret: { type: 'boolean' },
    description: { type: 'string' }
  }))
})

/** A setting as people see it: a secret only says whether it is set. */
export type ShownSetting = Value<typeof settingsSchema>['results'][number]

/** Values of these are never shown. */
const SECRET_NAME = /PASSWORD|SECRET|KEY$|TOKEN/

/** Shown in the place of a secret. */
const MASK = '••••••'

/**
 * What every setting is for a process that runs in this environment, in the order of `settings.ts`.
 *
 * @param env  An empty variable counts as absent, as for `loadSettings`.
 */
export function describeSettings (env: NodeJS.ProcessEnv): ShownSetting[] {
  return (Object.keys(settings) as SettingName[]).map((name) => {
    const { default: byDefault, description } = settings[name] as { default?: unknown, description: string }
    const given = env[name] ?? ''
    const text = given === '' ? String(byDefault ?? '') : given
    const isSecret = SECRET_NAME.test(name)
    return {
      name, description, isSecret,
      value: isSecret && text !== '' ? MASK : maskPasswords(text),
      source: given === '' ? 'default' : 'environment'
    }
  })
}

/** Takes what follows the user out of URLs (`nats://user:password@host`), and the values of parameters that look like secrets. */
function maskPasswords (text: string): string {
  return text
    .replace(/([a-z][a-z0-9+.-]*:\/\/[^\s:/?#,@]*):[^\s,]*@/gi, `$1:${MASK}@`)
    .replace(/([?&][^=&#\s]*(?:password|secret|token|key)[^=&#\s]*=)[^&#\s,]*/gi, `$1${MASK}`)
}
