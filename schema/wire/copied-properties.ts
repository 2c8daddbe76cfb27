/**
 * Event properties that also describe the person (docs/reference/contract/sdks.md 5.3): of an event that changes a
 * person the latest is set under its own name, and the first under `initialName`.
 */
export const COPIED_PROPERTIES: readonly string[] = [
  '$app_build', '$app_name', '$app_namespace', '$app_version', '$browser', '$browser_version', '$device_type',
  '$current_url', '$pathname', '$os', '$os_name', '$os_version', '$referrer', '$referring_domain', '$screen_height',
  '$screen_width', '$viewport_height', '$viewport_width', '$raw_user_agent',
  'utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_name', 'utm_term',
  'gclid', 'gad_source', 'gclsrc', 'dclid', 'gbraid', 'wbraid', 'fbclid', 'msclkid', 'twclid', 'li_fat_id', 'mc_cid',
  'igshid', 'ttclid', 'rdt_cid', 'irclid', '_kx', 'epik', 'qclid', 'sccid'
]

/** Under which name a person has the first value of a copied property. */
export function initialName (name: string): string {
  return `$initial_${name.replace(/^\$/, '')}`
}
