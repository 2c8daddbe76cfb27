/**
 * The export of Amplitude (https://amplitude.com/docs/apis/analytics/export, read 2026-11-26): a zip of gzipped files, a
 * line an event, with `uuid`, `event_type`, `event_time` in UTC, `user_id`, `device_id`, `event_properties`,
 * `user_properties` and `groups`.
 */
import {
  createIdentify, type ImportTarget, type MapRow, readObject, readText, readTime, RejectedRowError, requireObject,
  withUuid
} from './imported-event.ts'

/** Fields that are properties under another name. */
const PROPERTIES: Readonly<Record<string, string>> = {
  ip_address: '$ip', device_id: '$device_id', os_name: '$os', os_version: '$os_version', device_type: '$device_type',
  device_manufacturer: '$device_manufacturer', device_model: '$device_model', country: '$geoip_country_name',
  region: '$geoip_subdivision_1_name', city: '$geoip_city_name', language: '$browser_language', library: '$lib',
  version_name: '$app_version', session_id: '$session_id', platform: 'platform', dma: 'dma'
}

/** Names of Amplitude for what has one here. */
const EVENTS: ReadonlyMap<string, string> = new Map([['[Amplitude] Page Viewed', '$pageview'], ['$identify', '$set']])

const READ = new Set([
  'uuid', '$insert_id', 'event_type', 'event_time', 'user_id', 'amplitude_id', 'event_properties', 'user_properties', 'groups',
  ...Object.keys(PROPERTIES)
])

export function createAmplitudeMapper ({ project, now }: ImportTarget): MapRow {
  const identify = createIdentify()
  return (row, before) => {
    const fields = requireObject(row)
    before.noteColumns(fields, READ)
    const { user_id: userId, device_id: deviceId } = fields
    const sentName = readText(fields['event_type'], 'event_type')
    if (sentName === '$groupidentify') throw new RejectedRowError('event_type $groupidentify: properties of groups are not imported')
    const id = [userId, deviceId, fields['amplitude_id']].find((each) => each !== undefined && each !== null && each !== '')
    if (id === undefined) throw new RejectedRowError('user_id, device_id and amplitude_id are missing')
    const properties: Record<string, unknown> = readObject(fields['event_properties'], 'event_properties')
    for (const [field, name] of Object.entries(PROPERTIES)) {
      const value = fields[field]
      if (value !== undefined && value !== null && value !== '' && properties[name] === undefined) properties[name] = value
    }
    const $set = readObject(fields['user_properties'], 'user_properties')
    // Of a group type with several groups the first: an event has one group of each type.
    const $groups = Object.fromEntries(Object.entries(readObject(fields['groups'], 'groups'))
      .map(([type, group]) => [type, Array.isArray(group) ? group[0] : group]))
    const timestamp = readTime(fields['event_time'], 'event_time', now)
    return [...identify(userId, deviceId, timestamp), withUuid({
      event: EVENTS.get(sentName) ?? sentName,
      distinct_id: readText(id, 'user_id'),
      timestamp,
      properties: {
        ...properties,
        ...Object.keys($set).length > 0 && { $set },
        ...Object.keys($groups).length > 0 && { $groups }
      }
    }, fields['uuid'] ?? fields['$insert_id'], project, before)]
  }
}
