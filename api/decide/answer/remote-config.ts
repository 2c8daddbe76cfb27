/** How SDKs may compress; the contract lists gzip and lz64. */
export const SUPPORTED_COMPRESSION = ['gzip', 'gzip-js', 'lz64'] as const

/**
 * What browser SDKs ask for when they start: which products are on. Millrace takes events and answers flags, so
 * recordings, surveys and the like are off. Keys are as the SDKs read them.
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
    surveys: false,
    toolbarParams: {}
  }
}

/** The same as a script, for pages that load it before the SDK. */
export function buildRemoteConfigScript (token: string): string {
  // JSON in a script: a "<" could end it, and the two line separators once were no JavaScript.
  const quote = (value: unknown): string => JSON.stringify(value)
    .replaceAll('<', '\\u003c').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
  const entry = `{"config":${quote(buildRemoteConfig(token))},"siteApps":[]}`
  return '(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};' +
    `window._POSTHOG_REMOTE_CONFIG[${quote(token)}]=${entry}})();\n`
}
