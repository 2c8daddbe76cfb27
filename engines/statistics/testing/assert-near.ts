import type { Test } from 'tap'

/** One number, or several in order. */
type Numbers = number | readonly number[] | null

/**
 * Asserts that computed numbers agree with reference values, relative to the reference (absolutely, around zero).
 *
 * @param tolerance  1e-9 by default: what a printed reference of 10 to 15 digits and the library have in common
 */
export function assertNear (t: Test, actual: Numbers, expected: Numbers, tolerance = 1e-9, message = ''): void {
  const found = [actual].flat()
  const wanted = [expected].flat()
  const agree = found.length === wanted.length && wanted.every((value, i) => {
    const other = found[i] as number | null
    if (value === null || other === null) return value === other
    return Math.abs(other - value) <= tolerance * (Math.abs(value) || 1)
  })
  t.ok(agree, `${message} ${JSON.stringify(actual)} is ${JSON.stringify(expected)} within ${tolerance}`)
}
