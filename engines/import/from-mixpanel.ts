/**
 * The raw export of Mixpanel (https://docs.mixpanel.com/reference/raw-event-export, read 2026-11-26): a line an
 * event, `{"event", "properties": {"time", "distinct_id", "$insert_id", ...}}`. Mixpanel counts an event once by name,
 * distinct id, time and `$insert_id`, and so does its uuid here.
 */
import { fromWallClock } from '../operators/match-date.ts'
import {
  checked, createIdentify, type MapRow, numberUuid, readObject, readText, readTime, RejectedRowError, requireObject,
  type UncheckedEvent, uuidOf
} from './imported-event.ts'

/** Properties that Mixpanel gives other names; all others stay as they are. */
const NAMES: ReadonlyMap<string, string> = new Map(Object.entries({
  $city: '$geoip_city_name', $region: '$geoip_subdivision_1_name', mp_country_code: '$geoip_country_code', mp_lib: '$lib',
  $app_version_string: '$app_version'
}))

const READ = new Set(['event', 'properties'])

/**
 * @param options.timeZone  Of the project: `time` of one made before 2023 is the wall clock of that zone, counted as if
 *   it were UTC. `UTC` for newer ones.
 */
export function createMixpanelMapper ({ now, timeZone }: { now: number, timeZone: string }): MapRow {
  const identify = createIdentify()
  return (row, before) => {
    const fields = requireObject(row)
    before.noteColumns(fields, READ)
    const sent = readObject(fields['properties'], 'properties')
    const { time, distinct_id: id, $insert_id: insertId, ...rest } = sent
    const { $device_id: deviceId, $user_id: userId } = rest
    const event = readText(fields['event'], 'event')
    const distinctId = readText(id, 'properties.distinct_id')
    if (time === undefined) throw new RejectedRowError('properties.time is missing')
    const timestamp = fromWallClock(readTime(time, 'properties.time', now + 86_400_000), timeZone)
    const properties = Object.fromEntries(Object.entries(rest).map(([name, value]) => [NAMES.get(name) ?? name, value]))
    const hasId = (insertId ?? '') !== ''
    const uuid = uuidOf('mixpanel', event, distinctId, JSON.stringify(time), hasId && typeof insertId === 'string' ? insertId : JSON.stringify(sent))
    const mapped = checked(toMerge({
      uuid: hasId ? uuid : numberUuid(uuid, timestamp, before),
      event,
      distinct_id: distinctId,
      timestamp,
      properties
    }))
    // Before somebody logs in, the distinct id is that of the device with a prefix (Simplified ID Merge).
    return [...identify(userId, typeof deviceId === 'string' && deviceId !== '' ? `$device:${deviceId}` : '', timestamp), mapped]
  }
}

/** Events of the older ID merge, by which Mixpanel made two ids one, become those that do so here. */
function toMerge (mapped: UncheckedEvent): UncheckedEvent {
  const { $identified_id: identified, $anon_id: anonymous, $distinct_ids: ids } = mapped.properties
  if (mapped.event === '$identify' && typeof identified === 'string' && typeof anonymous === 'string') {
    return { ...mapped, distinct_id: identified, properties: { $anon_distinct_id: anonymous } }
  }
  if (mapped.event === '$merge' && Array.isArray(ids) && typeof ids[0] === 'string' && typeof ids[1] === 'string') {
    return { ...mapped, event: '$merge_dangerously', distinct_id: ids[0], properties: { alias: ids[1] } }
  }
  return mapped
}
