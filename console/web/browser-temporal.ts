/** Bundled in place of the polyfill, which is larger than most screens; undefined in old browsers. */
export const Temporal: unknown = Reflect.get(globalThis, 'Temporal')
