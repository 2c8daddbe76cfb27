import { fieldsOf } from './dialect.ts'

type Fields = Readonly<Record<string, unknown>>

/** The type of all groups: messages name none. */
export const SEGMENT_GROUP_TYPE = 'group'

/** Where a value of Segment's `context` goes: its path, and the property that PostHog's SDKs use for the same. */
const PROPERTIES: readonly [section: string, name: string, property: string][] = [
  ['library', 'name', '$lib'],
  ['library', 'version', '$lib_version'],
  ['page', 'url', '$current_url'],
  ['page', 'path', '$pathname'],
  ['page', 'referrer', '$referrer'],
  ['page', 'title', '$title'],
  ['campaign', 'name', 'utm_campaign'],
  ['campaign', 'source', 'utm_source'],
  ['campaign', 'medium', 'utm_medium'],
  ['campaign', 'term', 'utm_term'],
  ['campaign', 'content', 'utm_content'],
  ['app', 'name', '$app_name'],
  ['app', 'version', '$app_version'],
  ['app', 'build', '$app_build'],
  ['app', 'namespace', '$app_namespace'],
  ['device', 'manufacturer', '$device_manufacturer'],
  ['device', 'model', '$device_model'],
  ['device', 'name', '$device_name'],
  ['device', 'type', '$device_type'],
  ['os', 'name', '$os'],
  ['os', 'version', '$os_version'],
  ['screen', 'width', '$screen_width'],
  ['screen', 'height', '$screen_height']
]

const OWN: readonly [name: string, property: string][] = [
  ['ip', '$ip'],
  ['userAgent', '$raw_user_agent'],
  ['locale', '$locale'],
  ['timezone', '$timezone'],
  ['sessionId', '$session_id']
]

/**
 * The properties that the `context` of a message stands for. What has no property of its own is kept as it was sent, in
 * `$segment_context`: nothing is lost.
 */
export function readContext ({ groupId, ...context }: Fields): Record<string, unknown> {
  const properties: Record<string, unknown> = isGiven(groupId) ? { $groups: { [SEGMENT_GROUP_TYPE]: groupId } } : {}
  const rest: Record<string, unknown> = { ...context }
  for (const [name, property] of OWN) {
    if (context[name] !== undefined && context[name] !== null) properties[property] = context[name]
    delete rest[name]
  }
  for (const [section, name, property] of PROPERTIES) {
    const value = fieldsOf(context[section])[name]
    if (value === undefined || value === null) continue
    properties[property] = value
    const { [name]: _, ...others } = fieldsOf(rest[section])
    rest[section] = others
  }
  for (const [name, value] of Object.entries(rest)) {
    if (typeof value === 'object' && value !== null && Object.keys(value).length === 0) delete rest[name]
  }
  if (Object.keys(rest).length > 0) properties.$segment_context = rest
  return properties
}

export function isGiven (value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}
