import { readFile } from 'node:fs/promises'
import path from 'node:path'

/** Password of every login of the nodes. */
export const LAB_PASSWORD = 'lab'

const FOLDER = path.join(import.meta.dirname, '..', '..', '..', 'deploy', 'clickhouse')

interface Login {
  grants: string[]
  settings: string
}

/**
 * The logins that `deploy/clickhouse/*.sql` make, as a users.xml: the nodes have no folder in which CREATE USER could
 * write. The statements are applied in order, with the rights and limits as they are there; quotas are left out.
 *
 * @param owners  Passwords of further logins that may do everything, by name.
 */
export async function renderLogins (owners: Readonly<Record<string, string>> = {}): Promise<string> {
  const logins = new Map<string, Login>()
  const profiles = new Map<string, string>()
  /** A role is what it grants, and its profile. */
  const login = (name: string): Login => {
    const known = logins.get(name) ?? { grants: [], settings: '' }
    logins.set(name, known)
    return known
  }
  const roles = new Set<string>()
  for (const statement of await readStatements()) {
    const grant = /^GRANT ([^]+) TO (\w+)$/.exec(statement)
    const [, kind, name = '', rest = ''] = /^(?:CREATE|ALTER) (USER|ROLE|SETTINGS PROFILE)(?: IF NOT EXISTS)? (\w+) ?([^]*)$/.exec(statement) ?? []
    if (grant !== null) {
      const [, what = '', to = ''] = grant
      if (roles.has(what)) Object.assign(login(to), login(what))
      else login(to).grants.push(`GRANT ${what}`)
    } else if (kind === 'SETTINGS PROFILE') {
      profiles.set(name, rest.replace(/^SETTINGS /, ''))
    } else if (kind !== undefined) {
      if (kind === 'ROLE') roles.add(name)
      const profile = /SETTINGS PROFILE '(\w+)'/.exec(rest)?.[1]
      const settings = profile === undefined ? /SETTINGS ([^]*)$/.exec(rest)?.[1] : profiles.get(profile)
      if (settings !== undefined) login(name).settings = settings
    }
  }
  for (const role of roles) logins.delete(role)
  const users = [...logins].map(([name, { grants }]) => `
    <${name}><password>${LAB_PASSWORD}</password><networks><ip>127.0.0.0/8</ip></networks><profile>${name}</profile><quota>default</quota>
      <grants>${grants.map((query) => `<query>${query}</query>`).join('')}</grants></${name}>`)
  const mayDoAll = Object.entries({ default: '', ...owners }).map(([name, password]) => `
    <${name}><password>${password}</password><networks><ip>127.0.0.0/8</ip></networks><profile>default</profile><quota>default</quota><access_management>1</access_management></${name}>`)
  return `<clickhouse>
  <profiles><default/>${[...logins].map(([name, { settings }]) => `<${name}>${renderSettings(settings)}</${name}>`).join('\n')}</profiles>
  <users>
    ${mayDoAll.join('')}${users.join('')}
  </users>
  <quotas><default/></quotas>
</clickhouse>`
}

async function readStatements (): Promise<string[]> {
  const texts = await Promise.all(['users.sql', 'analyst.sql'].map(async (file) => await readFile(path.join(FOLDER, file), 'utf8')))
  return texts.join('\n').replaceAll(/^ *--.*$/gm, '').split(';').map((statement) => statement.trim()).filter((text) => text !== '')
}

/** `name = value MIN 1 MAX 2, other = 'text' CONST` as elements, its bounds as constraints. */
function renderSettings (settings: string): string {
  const values: string[] = []
  const bounds: string[] = []
  for (const [, name, value, rest = ''] of settings.matchAll(/(\w+) = ('[^']*'|\d+)([^,]*)/g)) {
    values.push(`<${name}>${value?.replaceAll("'", '')}</${name}>`)
    const [min, max] = ['MIN', 'MAX'].map((bound) => new RegExp(`${bound} (\\d+)`).exec(rest)?.[1])
    const limits = (min === undefined ? '' : `<min>${min}</min>`) + (max === undefined ? '' : `<max>${max}</max>`)
    const isConstant = rest.includes('CONST') || name === 'readonly'
    if (isConstant && name !== 'readonly') bounds.push(`<${name}><readonly/></${name}>`)
    else if (limits !== '') bounds.push(`<${name}>${limits}</${name}>`)
  }
  return `${values.join('')}<constraints>${bounds.join('')}</constraints>`
}
