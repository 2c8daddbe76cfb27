/**
 * The part of `cephes` in use. The package has declarations, but its export map hides them from the compiler.
 * All functions throw a RangeError outside of their domain, and an Error where a factor would underflow.
 */
declare module 'cephes' {
  /** Resolves when the WebAssembly module is ready; nothing may be called before. */
  export const compiled: Promise<void>
  /** Regularised incomplete beta function I_x(a, b). */
  export function incbet (a: number, b: number, x: number): number
  /** Regularised lower incomplete gamma function P(a, x). */
  export function igam (a: number, x: number): number
  /** Regularised upper incomplete gamma function Q(a, x). */
  export function igamc (a: number, x: number): number
  /** Natural logarithm of the gamma function. */
  export function lgam (x: number): number
  /** Normal cumulative distribution. */
  export function ndtr (x: number): number
  /** Normal quantile. */
  export function ndtri (probability: number): number
}
