import { SettingsError } from '../../engines/errors.ts'
import { type Membership, type Role, ROLES } from '../../schema/roles.ts'

/** What a provider or a proxy says of somebody. */
export interface Grant {
  email: string
  isEmailVerified: boolean
  groups: readonly string[]
}

interface Rule extends Membership {
  /** A group, or `@` and the domain of a verified address. */
  given: string
}

const RULE = /^(?<given>[^=]+)=(?<role>[a-z]+)(?<persons>\+persons)?(?::(?<project>[1-9]\d{0,8}))?$/

/**
 * Reads `MILLRACE_LOGIN_ROLES`, such as `admins=admin, team-a=editor:2, @example.com=viewer+persons`.
 *
 * @returns what the rules give somebody; nothing: no role.
 * @throws {SettingsError}
 */
export function readRoleRules (text: string): (grant: Grant) => Membership[] {
  const rules = text.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '').map(readRule)
  return ({ email, isEmailVerified, groups }) => {
    const domain = isEmailVerified ? email.toLowerCase().replace(/^.*@/, '@') : ''
    const given = rules.filter((rule) => rule.given.startsWith('@') ? rule.given === domain : groups.includes(rule.given))
    // Of several for one place the strongest counts.
    const best = new Map<number | null, Membership>()
    for (const { project_id: project, role, sees_persons: sees } of given) {
      const known = best.get(project)
      if (known !== undefined && rank(known) >= rank({ role, sees_persons: sees })) continue
      best.set(project, { project_id: project, role, sees_persons: sees })
    }
    return [...best.values()]
  }
}

function readRule (entry: string): Rule {
  const { given = '', role: name, persons, project } = RULE.exec(entry)?.groups ?? {}
  const role = ROLES.find((each) => each === name)
  if (role === undefined) {
    throw new SettingsError([`MILLRACE_LOGIN_ROLES has "${entry}", which is not group=role, group=role:project or @domain=role, with a role of ${ROLES.join(', ')} or viewer+persons`])
  }
  const isDomain = given.startsWith('@')
  return {
    given: isDomain ? given.toLowerCase().trim() : given.trim(), role, sees_persons: persons !== undefined,
    project_id: project === undefined ? null : Number(project)
  }
}

function rank ({ role, sees_persons: sees }: { role: Role, sees_persons: boolean }): number {
  return ROLES.indexOf(role) * 2 + Number(sees)
}
