/** Compressions that SDKs may use; the contract lists gzip and lz64. */
export const SUPPORTED_COMPRESSION = ['gzip', 'gzip-js', 'lz64'] as const

/**
 * The remote configuration that browser SDKs load when they start: which products are on. Millrace takes events and
 * answers flags; recordings and the like are off.
 *
 * Products that a page would load a script for are absent rather than false: posthog-js 1.434 loads the script of
 * surveys for any value but an absent one.
 */
export function buildRemoteConfig (token: string): Record<string, unknown> {
  return {
    token,
    hasFeatureFlags: true,
    supportedCompression: SUPPORTED_COMPRESSION,
    analytics: { endpoint: '/e/' },
    autocapture_opt_out: false,
    autocaptureExceptions: false,
    captureDeadClicks: false,
    capturePerformance: false,
    defaultIdentifiedOnly: true,
    elementsChainAsString: true,
    errorTracking: { autocaptureExceptions: false },
    heatmaps: false,
    isAuthenticated: false,
    sessionRecording: false,
    siteApps: [],
    toolbarParams: {}
  }
}

/** The remote configuration as a script, which puts it where posthog-js looks for it. */
export function buildRemoteConfigScript (token: string): string {
  // JSON in a script: "<" could end the script, and old browsers refuse the two line separators.
  const quote = (value: unknown): string => JSON.stringify(value)
    .replaceAll('<', '\\u003c').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
  const entry = `{"config":${quote(buildRemoteConfig(token))},"siteApps":[]}`
  return '(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};' +
    `window._POSTHOG_REMOTE_CONFIG[${quote(token)}]=${entry}})();\n`
}
