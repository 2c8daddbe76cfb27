import type { Scope } from '../../../platform/scopes.ts'
import { showText } from '../format.ts'
import type { Receipt } from './explain-receipt.ts'
import { remedyFor, splitReason } from './warning-remedies.ts'

/** A page that says more about where an event is, or where that is changed. */
export interface Lead { to: string, title: string, scope: Scope }

/** Where to go from a receipt. @param home  `/projects/<id>`. */
export function leadsOf ({ dead_letter: letter, waiting, dropped }: Receipt, home: string): Lead[] {
  if (letter !== null) {
    const { id, stage, event } = letter
    return [
      { to: `${home}/dead-letters/${id}`, title: `Dead letter ${id}`, scope: 'dead_letter:read' },
      ...stage === 'schema' && event !== null
        ? [{ to: `${home}/schemas?search=${encodeURIComponent(event)}`, title: `Schema of ${showText(event, 60)}`, scope: 'event_definition:read' as const }]
        : []
    ]
  }
  if (waiting !== null) return [{ to: '/health', title: 'Health', scope: 'project:read' }]
  if (dropped === null) return []
  const { name, rule } = splitReason(dropped.reason)
  switch (remedyFor(name).screen) {
    case 'rules': return [rule === null
      ? { to: `${home}/rules`, title: 'Rules', scope: 'event_definition:read' }
      : { to: `${home}/rules?name=${encodeURIComponent(rule)}`, title: `Rule ${showText(rule, 60)}`, scope: 'event_definition:read' }]
    case 'schemas': return [{ to: `${home}/schemas`, title: 'Schemas', scope: 'event_definition:read' }]
    case 'usage': return [{ to: `${home}/usage`, title: 'Usage', scope: 'project:read' }]
    default: return []
  }
}
