/**
 * Loaded into the tiers by `--import`: adds to their clock the milliseconds that a file says, so that it can jump
 * without touching the clock of the machine. The monotonic clock stays as it is, as it does on a real machine.
 */
import { readFileSync } from 'node:fs'

const file = process.env.MILLRACE_TEST_CLOCK_FILE ?? ''
const RealDate = Date
const POLL_INTERVAL_MS = 100
let shiftMs = readShift()

function readShift (): number {
  try {
    return Number(readFileSync(file, 'utf8'))
  } catch {
    // No file, no shift.
    return 0
  }
}

if (file !== '') {
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now() + shiftMs] : args, newTarget) as object,
    apply: () => new RealDate(RealDate.now() + shiftMs).toString(),
    get: (target, property) => property === 'now' ? shiftedNow : Reflect.get(target, property) as unknown
  })
  setInterval(() => { shiftMs = readShift() }, POLL_INTERVAL_MS).unref()
}

function shiftedNow (): number {
  return RealDate.now() + shiftMs
}
