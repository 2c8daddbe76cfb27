/** Which versions of schemas and rules a process enforces, in figures that can be compared between processes. */
import { createHash } from 'node:crypto'
import type { Metrics } from '../../platform/metrics.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { EnforcedProject } from './read-projects.ts'

/** Enforced definitions of all projects. */
export interface EnforcedVersions {
  count: number
  /** The same in all processes that enforce the same; 0 when nothing is. Exact as a double. */
  fingerprint: number
}

const KINDS = ['schemas', 'rules'] as const

/** The hash of what a project enforces: such a set never changes, another one takes its place. */
const hashes = new WeakMap<object, string>()

/** What a process enforces by these projects; the order of projects does not matter, that of rules does. */
export function enforcedVersions (projects: Iterable<EnforcedProject>, kind: typeof KINDS[number]): EnforcedVersions {
  let count = 0
  const parts: string[] = []
  for (const { id, schemas, rules } of projects) {
    if (kind === 'schemas' && schemas !== undefined) {
      count += schemas.size
      parts.push(`${id} ${hashOnce(schemas, () => [...schemas.values()].map(({ event, version, mode }) => [event, version, mode]).sort())}`)
    } else if (kind === 'rules' && rules !== undefined) {
      const ordered = rules.rules.rules
      count += ordered.length
      parts.push(`${id} ${hashOnce(rules, () => ordered.map(({ id: rule, version }) => [rule, version]))}`)
    }
  }
  return { count, fingerprint: count === 0 ? 0 : hash(parts.sort()).readUIntBE(0, 6) }
}

function hashOnce (set: object, describe: () => unknown[]): string {
  let known = hashes.get(set)
  if (known === undefined) hashes.set(set, known = hash(describe()).toString('base64'))
  return known
}

function hash (content: unknown[]): Buffer {
  return createHash('sha256').update(JSON.stringify(content)).digest()
}

/** Reports what a process enforces, and how old what it knows is. Before the first reading nothing is known: NaN. */
export function reportEnforced (metrics: Metrics, keys: KeyDirectory<EnforcedProject>, now: () => number): void {
  const words = { schemas: 'event schemas', rules: 'rules' }
  for (const kind of KINDS) {
    const read = (): EnforcedVersions =>
      keys.state.isReady ? enforcedVersions(keys.projects(), kind) : { count: NaN, fingerprint: NaN }
    metrics.gaugeFrom(`${kind}_enforced`, `Active ${words[kind]} enforced by this process.`, () => read().count)
    metrics.gaugeFrom(`${kind}_fingerprint`,
      `Fingerprint of the enforced ${words[kind]}, equal in up-to-date processes.`,
      () => read().fingerprint)
  }
  metrics.gaugeFrom('keys_age_seconds', 'Time since keys, schemas, rules and quotas were read from Postgres; NaN before.',
    () => (now() - keys.state.readAt) / 1000)
}
