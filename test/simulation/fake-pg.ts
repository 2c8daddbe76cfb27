/** The driver's client on the simulated Postgres, and the network between them. To be imported before the pool. */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import pg from 'pg'
import { type FakePostgres, Session } from './fake-postgres.ts'
import type { Faults } from './scenario.ts'
import { ownerOfNow, type World } from './virtual-time.ts'

/** What the clients of the world under way talk to. */
export const network: { world?: World, postgres?: FakePostgres, faults?: Faults } = {}

class FakeClient extends EventEmitter {
  _queryable = true
  readonly #owner = ownerOfNow()
  readonly #session = new Session()
  readonly #world = network.world!
  readonly #postgres = network.postgres!
  readonly #faults = network.faults!
  /** A statement is still under way when the client has given up. */
  #isLate = false
  #reject: (error: Error) => void = () => {}

  constructor ({ stream }: { stream: () => Socket }) {
    super()
    // Given up by our side.
    stream().once('close', () => this.#lose())
  }

  connect (done: (error?: Error) => void): void {
    this.#session.onEnd = () => this.#world.after(1, () => this.#lose(), this.#owner)
    this.#world.after(this.#world.between(1, 5), () => {
      if (this.#postgres.downUntil > this.#world.now) {
        this._queryable = false
        this.emit('connect')
        return done(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
      }
      this.#postgres.sessions.add(this.#session)
      this.emit('connect')
      done()
    }, this.#owner)
  }

  async query ({ text, values }: { text: string, values: unknown[] }): Promise<unknown> {
    if (!this._queryable) throw new Error('Connection terminated')
    const fate = this.#faults.fateOfStatement()
    if (fate !== 'handled') this.#world.log(`${text.trim().slice(0, 30)} ${fate}`)
    return await new Promise((resolve, reject) => {
      this.#reject = reject
      const breakOff = (): void => this.#postgres.end(this.#session)
      if (fate === 'late') {
        this.#isLate = true
        this.#world.after(1, () => this.#lose(), this.#owner)
      }
      this.#world.after(this.#world.between(0.2, 2) + (fate === 'late' ? this.#world.between(500, 6000) : 0), () => {
        if (fate === 'lost') return breakOff()
        this.#postgres.execute(this.#session, text, values).then(({ rows, command }) => {
          if (fate !== 'handled') return breakOff()
          const result = { rows, rowCount: rows.length, command }
          this.#world.after(this.#world.between(0.2, 2), () => resolve(result), this.#owner)
        }, (error: Error) => { this.#world.after(1, () => reject(error), this.#owner) })
      }, null)
    })
  }

  getTransactionStatus = (): string => this.#session.isInTransaction ? 'T' : 'I'

  end (done: () => void): void {
    this._queryable = false
    if (!this.#isLate) this.#postgres.end(this.#session)
    done()
  }

  ref (): void {}
  unref (): void {}

  /** The client learns that the connection is gone. */
  #lose (): void {
    if (!this._queryable) return
    this._queryable = false
    const error = new Error('Connection terminated unexpectedly')
    this.#reject(error)
    this.emit('error', error)
  }
}

Object.assign(pg, { Client: FakeClient })
