/** Event properties that also describe the person (docs/contract/sdks.md 5.3). */
const COPIED = [
  '$app_build', '$app_name', '$app_namespace', '$app_version', '$browser', '$browser_version', '$device_type',
  '$current_url', '$pathname', '$os', '$os_name', '$os_version', '$referrer', '$referring_domain', '$screen_height',
  '$screen_width', '$viewport_height', '$viewport_width', '$raw_user_agent',
  'utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_name', 'utm_term',
  'gclid', 'gad_source', 'gclsrc', 'dclid', 'gbraid', 'wbraid', 'fbclid', 'msclkid', 'twclid', 'li_fat_id', 'mc_cid',
  'igshid', 'ttclid', 'rdt_cid', 'irclid', '_kx', 'epik', 'qclid', 'sccid'
].map((name) => ({ name, initial: `$initial_${name.replace(/^\$/, '')}` }))

/** What an event says about its person by the way: the latest as `set`, the first as `setOnce` of `$initial_...`. */
export function automaticPersonProperties (
  properties: Record<string, unknown>
): { set: Record<string, unknown>, setOnce: Record<string, unknown> } {
  const set: Record<string, unknown> = {}
  const setOnce: Record<string, unknown> = {}
  for (const { name, initial } of COPIED) {
    const value = properties[name]
    if (value === undefined || value === null) continue
    set[name] = value
    setOnce[initial] = value
  }
  return { set, setOnce }
}
