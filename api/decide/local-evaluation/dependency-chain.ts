import { type FlagSet } from '../../flags/compile/compile-flag-set.ts'

/**
 * Lists the flags to compute for a flag that another asks for, in order, itself last: what SDKs that evaluate locally
 * go through. Empty when the flag asks for itself; SDKs leave such flags to the server.
 *
 * @param reference  Key or id, as the filter gives it.
 */
export function readChain (set: FlagSet, reference: string): { key: string, chain: string[] } {
  const { flags } = set.definitions
  const position = set.positions.get(reference)
  if (position === undefined) return { key: reference, chain: [reference] }
  const key = flags[position]!.key
  if (set.flags[position]!.broken === 'dependency_cycle') return { key, chain: [] }
  const chain = new Set<string>()
  const visit = (at: number): void => {
    for (const next of set.flags[at]!.dependencies) visit(next)
    chain.add(flags[at]!.key)
  }
  visit(position)
  return { key, chain: [...chain] }
}
