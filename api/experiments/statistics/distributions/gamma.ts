import { compiled, igam, igamc, lgam } from 'cephes'
import { edgeworthCumulative, LARGE_GAMMA_SHAPE } from './edgeworth-cumulative.ts'

await compiled

/** Probability that a gamma variable of this shape and of rate 1 is at most `x`. The shape must be above zero. */
export function gammaCumulative (x: number, shape: number): number {
  if (x <= 0) return 0
  if (shape < LARGE_GAMMA_SHAPE) return isBeyondDoubles(x, shape) ? Number(x > shape) : igam(shape, x)
  return edgeworthCumulative((x - shape) / Math.sqrt(shape), 2 / Math.sqrt(shape), 6 / shape)
}

/** Probability that a chi-square variable with so many degrees of freedom is at least `x`: a p-value. */
export function chiSquareUpper (x: number, degreesOfFreedom: number): number {
  if (x <= 0) return 1
  const shape = degreesOfFreedom / 2
  return isBeyondDoubles(x / 2, shape) ? Number(x / 2 < shape) : igamc(shape, x / 2)
}

// The library throws where its leading factor, x^a e^-x / gamma(a), would underflow. There the answer is 0 or 1.
function isBeyondDoubles (x: number, shape: number): boolean {
  return shape * Math.log(x) - x - lgam(shape) < -700
}

/** Natural logarithm of the gamma function, for a number above zero. */
export function logGamma (x: number): number {
  return lgam(x)
}
